package system

import (
	"context"
	"errors"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"everloop/internal/limit"

	"github.com/gofiber/fiber/v2"
	"golang.org/x/sync/semaphore"

	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/domain/speech"
)

// Speech is the speech model.
type Speech interface {
	Transcribe(ctx context.Context, rec speech.Recording) (speech.Transcription, error)
	// MaxBytes is the size of the largest recording.
	MaxBytes() int
}

// maxSpeechPrompt bounds the prompt of a transcription, in characters.
const maxSpeechPrompt = 1000

// transcript is the answer to a recording.
type transcript struct {
	Text            string       `json:"text" doc:"What was said. Empty: no speech was heard." example:"Summarise the changes of June."`
	Language        string       `json:"language,omitempty" doc:"The language, as the speech model names it; left out: it does not say." example:"en"`
	DurationSeconds float64      `json:"duration_seconds,omitempty" doc:"Length of the recording; left out: the speech model does not say." example:"2.4"`
	Model           string       `json:"model" doc:"The speech model." example:"everloop-demo-speech"`
	Usage           domain.Usage `json:"usage" doc:"What the speech model has used." example:"{\"input_tokens\": 24, \"output_tokens\": 6}"`
}

// maxTranscriptions bounds the recordings that are in memory at once.
const maxTranscriptions = 8

// ownTranscriptions bounds the requests of one user, from the first byte to the answer.
const ownTranscriptions = 4

// speechAPI transcribes recordings that belong to no message.
type speechAPI struct {
	speech Speech
	open   *semaphore.Weighted // recordings in memory
	own    limit.Keyed[string] // requests of each user
	room   func() error        // of temporary files
}

// Register adds the operations of the area to the interface.
func (a *speechAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "transcribe-recording", Method: fiber.MethodPost, Path: "/api/transcribe", Tag: "Service",
		Summary: "Transcribe a recording",
		Description: "For speech input: the text is returned and nothing is kept. " + speech.AudioFormatNames + ", of at most " +
			"25 MiB.",
		Scope: auth.Chat, Stream: true,
		Errors: httpx.Codes{
			413: "audio_too_large body_too_large",
			422: speech.CodeOff + " " + speech.CodeInvalidAudio + " " + speech.CodeRefused,
			429: "too_many_transcriptions",
			503: speech.CodeDown + " disk_full",
		},
		Form: &httpx.Form{
			File: "file",
			Fields: map[string]string{
				"language": "The language as two or three letters, as en. Default: the speech model finds out.",
				"prompt":   "Names and words that the recording may hold. At most 1,000 characters.",
			},
		},
		Example: `{"file": "question.wav", "language": "en"}`,
	}, a.transcribe)
}

func (a *speechAPI) transcribe(ctx context.Context, in *httpx.FormInput) (*httpx.Body[transcript], error) {
	ctx, cancel := context.WithTimeout(ctx, transcribeTime)
	defer cancel()

	if a.speech == nil {
		return nil, domain.Newf(domain.Invalid, speech.CodeOff, "no model for speech is configured: an operator sets ASR_MODEL")
	}

	leave, err := a.own.Try(limit.Bound[string]{Key: httpx.CallerOf(ctx).User.ID, Max: ownTranscriptions})
	if err != nil {
		e := domain.Newf(domain.RateLimited, "too_many_transcriptions", "%d recordings of yours are being transcribed; try again when one "+
			"of them has ended", ownTranscriptions)
		e.RetryAfter = 1

		return nil, e
	}
	defer leave()

	file := httpx.Spooled{Room: a.room}
	defer file.Close()

	rec, err := a.receive(in, &file)
	if err != nil {
		return nil, err
	}

	if err := a.open.Acquire(ctx, 1); err != nil {
		return nil, domain.Newf(domain.Unavailable, speech.CodeDown, "too many recordings are being transcribed; try again")
	}
	defer a.open.Release(1)

	if rec.Data, err = io.ReadAll(io.NewSectionReader(file.File, 0, file.Size)); err != nil {
		return nil, err
	}

	heard, err := a.speech.Transcribe(ctx, rec)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = domain.Newf(domain.Unavailable, speech.CodeDown, "the speech model did not answer in time")
		}

		return nil, speech.Fault(err)
	}

	return httpx.Answer(transcript{heard.Text, heard.Language, heard.DurationSeconds, heard.Model, heard.Usage.Shown()}, nil)
}

// transcribeTime bounds an upload with its transcription.
const transcribeTime = 10 * time.Minute

var isLanguage = regexp.MustCompile(`^[A-Za-z]{2,3}$`).MatchString

// receive reads the form: the recording to the file, and what is said of it.
func (a *speechAPI) receive(in *httpx.FormInput, file *httpx.Spooled) (rec speech.Recording, err error) {
	most := int64(a.speech.MaxBytes())

	fields, err := in.Form("file", func(content io.Reader) error {
		if err := file.Keep(io.LimitReader(content, most+1)); err != nil {
			return err
		}

		if file.Size > most {
			return domain.Newf(domain.TooLarge, "audio_too_large", "the recording is larger than %d bytes", most)
		}

		return nil
	})
	if err != nil {
		return rec, err
	}

	head := make([]byte, audioHead)

	n, err := file.File.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return rec, err
	}

	var known bool
	if rec.Format, known = speech.FindAudioFormat(head[:n]); !known {
		refusal := domain.Invalidf("body.file", "is not %s", speech.AudioFormatNames)
		refusal.Code = speech.CodeInvalidAudio

		return rec, refusal
	}

	rec.Language, rec.Prompt = strings.ToLower(fields["language"]), domain.CleanText(fields["prompt"])

	switch {
	case rec.Language != "" && !isLanguage(rec.Language):
		return rec, domain.Invalidf("body.language", "must be two or three letters, as en")
	case utf8.RuneCountInString(rec.Prompt) > maxSpeechPrompt:
		return rec, domain.Invalidf("body.prompt", "has more than %d characters", maxSpeechPrompt)
	}

	return rec, nil
}

// audioHead is how many bytes of a file show its format.
const audioHead = 512
