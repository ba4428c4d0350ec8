package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"

	"everloop/domain"
	"everloop/domain/speech"
)

// maxSpeechAnswer is the maximum response to one recording, in bytes.
const maxSpeechAnswer = 8 << 20

// SpeechConfig contains the model of transcriptions and the limits of its use.
type SpeechConfig struct {
	Client        *Client
	Model         string        // ASR_MODEL
	Timeout       time.Duration // of one recording
	MaxBytes      int           // of one recording
	MaxConcurrent int           // maximum concurrent requests of this process
}

// Speech transcribes recordings by POST /v1/audio/transcriptions. It is safe for concurrent use
// and does not retry.
type Speech struct {
	cfg  SpeechConfig
	open *semaphore.Weighted
}

// NewSpeech returns a new Speech; it does not connect.
func NewSpeech(cfg SpeechConfig) *Speech {
	return &Speech{cfg: cfg, open: semaphore.NewWeighted(int64(cfg.MaxConcurrent))}
}

// MaxBytes returns the maximum size of a recording.
func (s *Speech) MaxBytes() int { return s.cfg.MaxBytes }

// Model returns the name of the speech model.
func (s *Speech) Model() string { return s.cfg.Model }

// Transcribe returns the text of a recording. A failure of the server is a *domain.ModelError.
func (s *Speech) Transcribe(ctx context.Context, rec speech.Recording) (speech.Transcription, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()

	if err := s.open.Acquire(ctx, 1); err != nil {
		return speech.Transcription{}, s.interrupted(ctx, "no place to send the recording was free")
	}
	defer s.open.Release(1)

	req, err := s.request(ctx, rec)
	if err != nil {
		return speech.Transcription{}, err
	}

	res, err := s.cfg.Client.http.Do(req)
	if err != nil {
		return speech.Transcription{}, s.interrupted(ctx, s.cfg.Client.clean(networkText(err)))
	}
	defer res.Body.Close()

	if res.StatusCode != http.StatusOK {
		return speech.Transcription{}, s.cfg.Client.httpFault(res, true)
	}

	body, err := io.ReadAll(io.LimitReader(res.Body, maxSpeechAnswer+1))
	if err != nil {
		return speech.Transcription{}, s.interrupted(ctx, s.cfg.Client.clean(networkText(err)))
	}

	if len(body) > maxSpeechAnswer {
		return speech.Transcription{}, refused("the answer of the speech model is too long")
	}

	return s.read(ctx, body)
}

// interrupted returns the fault of a request without a response; a cancellation by the caller is
// returned as it is.
func (s *Speech) interrupted(ctx context.Context, why string) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		why = fmt.Sprintf("the speech model did not answer within %s", s.cfg.Timeout)
	} else if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	return transient(why)
}

// request builds the multipart request of a recording.
func (s *Speech) request(ctx context.Context, rec speech.Recording) (*http.Request, error) {
	var body bytes.Buffer

	form := multipart.NewWriter(&body)

	for _, field := range [][2]string{
		{"model", s.cfg.Model}, {"response_format", "json"}, {"language", rec.Language}, {"prompt", rec.Prompt},
	} {
		if field[1] == "" {
			continue
		}

		if err := form.WriteField(field[0], field[1]); err != nil {
			return nil, err
		}
	}

	part, err := form.CreateFormFile("file", "recording."+rec.Format.Name)
	if err != nil {
		return nil, err
	}

	if _, err := part.Write(rec.Data); err != nil {
		return nil, err
	}

	if err := form.Close(); err != nil {
		return nil, err
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.cfg.Client.base+"/audio/transcriptions", &body)
	if err != nil {
		return nil, refused("the address of the speech model's server is not valid")
	}

	s.cfg.Client.authorize(req)
	req.Header.Set("Content-Type", form.FormDataContentType())
	req.Header.Set("Accept", "application/json")

	return req, nil
}

// speechAnswer is the server's response. Usage is in tokens or in seconds.
type speechAnswer struct {
	Text     *string `json:"text"`
	Language string  `json:"language"`
	Duration float64 `json:"duration"`
	Usage    struct {
		InputTokens  int64   `json:"input_tokens"`
		OutputTokens int64   `json:"output_tokens"`
		Seconds      float64 `json:"seconds"`
	} `json:"usage"`
}

func (s *Speech) read(ctx context.Context, body []byte) (speech.Transcription, error) {
	var answer speechAnswer
	if err := json.Unmarshal(body, &answer); err != nil || answer.Text == nil {
		return speech.Transcription{}, transient("the answer of the speech model has no text")
	}

	text := strings.TrimSpace(domain.CleanText(*answer.Text))
	if utf8.RuneCountInString(text) > speech.MaxTranscript {
		text = string([]rune(text)[:speech.MaxTranscript])
	}

	out := speech.Transcription{
		Text: text, Language: domain.CleanText(answer.Language), Model: s.cfg.Model,
		DurationSeconds: max(answer.Duration, answer.Usage.Seconds, 0),
	}

	// Without the model list the tokens count without a price.
	used := domain.Usage{InputTokens: max(answer.Usage.InputTokens, 0), OutputTokens: max(answer.Usage.OutputTokens, 0)}
	known, _ := s.cfg.Client.Resolve(ctx, s.cfg.Model)
	out.Usage = known.Price.Charge(used)

	return out, nil
}
