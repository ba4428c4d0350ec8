package mock

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// spoken is what the log of requests shows of a transcription.
type spoken struct {
	Model  string `json:"model"`
	File   string `json:"file"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// transcribe answers one request for a transcription.
func (s *Service) transcribe(w http.ResponseWriter, r *http.Request) {
	in := s.bodies.Open(w, r)
	defer in.Release()

	r.Body = in

	file, header, err := r.FormFile("file")
	if fault := unfit(err); fault != nil {
		writeError(w, fault)
		return
	}

	if err != nil {
		writeError(w, badRequest("the form needs a file in the field file"))
		return
	}

	defer file.Close()
	defer func() { _ = r.MultipartForm.RemoveAll() }()

	audio, err := io.ReadAll(file)
	if err != nil {
		writeError(w, unreadable(err))
		return
	}

	sum := sha256.Sum256(audio)
	about, _ := json.Marshal(spoken{r.FormValue("model"), header.Filename, len(audio), hex.EncodeToString(sum[:])}) // plain values
	entry := s.requests.begin(about)
	outcome := s.hear(w, r, audio, hex.EncodeToString(sum[:]))
	s.requests.end(entry, outcome)
}

// hear decides and sends, and gives the outcome for the log.
func (s *Service) hear(w http.ResponseWriter, r *http.Request, audio []byte, key string) string {
	refuse := func(fault *apiError) string {
		writeError(w, fault)
		return fmt.Sprintf("status %d", fault.Status)
	}

	if name := r.FormValue("model"); name != SpeechModel {
		return refuse(notFound("model_not_found", "The model `"+name+"` does not transcribe; this mock service has `"+SpeechModel+"`."))
	}

	text, seconds := heardIn(audio)

	script, err := readScript(text)
	if err != nil {
		return refuse(badRequest("the script cannot be used: %v", err))
	}

	if script != nil {
		step := script.step(0)
		if text = step.Text; step.FailTimes > 0 && !s.failures.add(key, step.FailTimes) {
			step.Status = 0
		} else if step.FailTimes > 0 && step.Status == 0 {
			step.Status = http.StatusServiceUnavailable
		}

		if err := pause(r.Context(), time.Duration(step.FirstDelayMS)*time.Millisecond); err != nil {
			return outcomeGone
		}

		if step.Hold {
			if err := s.held.wait(r.Context()); err != nil {
				return outcomeGone
			}
		}

		if step.Status != 0 {
			return refuse((&plan{Step: step}).fault())
		}
	}

	if fault := sendTranscript(w, r, text, seconds, len(audio)); fault != nil {
		return refuse(fault)
	}

	return outcomeDone
}

// sendTranscript answers in the form that response_format and stream ask for, with one
// segment for the whole recording.
func sendTranscript(w http.ResponseWriter, r *http.Request, text string, seconds float64, size int) *apiError {
	usage := map[string]any{
		"type": "tokens", "input_tokens": 1 + size/1000, "output_tokens": len(strings.Fields(text)),
		"total_tokens": 1 + size/1000 + len(strings.Fields(text)),
	}
	answer := map[string]any{"text": text, "language": "en", "duration": seconds, "usage": usage}

	switch format := r.FormValue("response_format"); {
	case format == "srt":
		plain(w, fmt.Sprintf("1\n%s --> %s\n%s\n\n", moment(0, ","), moment(seconds, ","), text))
	case format == "vtt":
		plain(w, fmt.Sprintf("WEBVTT\n\n%s --> %s\n%s\n\n", moment(0, "."), moment(seconds, "."), text))
	case format == "text":
		plain(w, text+"\n")
	case format == "verbose_json":
		answer["task"] = "transcribe"
		answer["segments"] = []any{map[string]any{"id": 0, "start": 0, "end": seconds, "text": text}}
		writeJSON(w, http.StatusOK, answer)
	case format != "" && format != "json":
		return badRequest("response_format must be json, text, srt, verbose_json or vtt")
	case r.FormValue("stream") == "true":
		w.Header().Set("Content-Type", "text/event-stream")

		for _, word := range strings.SplitAfter(text, " ") {
			event(w, map[string]any{"type": "transcript.text.delta", "delta": word})
		}

		event(w, map[string]any{"type": "transcript.text.done", "text": text, "usage": usage})
	default:
		writeJSON(w, http.StatusOK, answer)
	}

	return nil
}

func plain(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text) // the client may be gone
}

func event(w http.ResponseWriter, data map[string]any) {
	text, _ := json.Marshal(data) // plain values
	_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", data["type"], text)
}

// moment writes seconds as subtitles do, with milliseconds after a comma or a point.
func moment(seconds float64, point string) string {
	ms := int(seconds * 1000)
	return fmt.Sprintf("%02d:%02d:%02d%s%03d", ms/3_600_000, ms/60_000%60, ms/1000%60, point, ms%1000)
}

// heardIn is the text that the samples of a WAV file spell, and else what can be said of
// a recording without listening.
func heardIn(audio []byte) (text string, seconds float64) {
	samples, perSecond := wavSamples(audio)
	if perSecond > 0 {
		seconds = float64(len(samples)) / float64(perSecond)
	}

	if text := strings.TrimSpace(string(samples)); text != "" && utf8.ValidString(text) && !strings.ContainsRune(text, 0) {
		return text, seconds
	}

	sum := sha256.Sum256(audio)

	return fmt.Sprintf("This is a scripted transcript, not speech: a recording of %d bytes, %x.", len(audio), sum[:4]), seconds
}

// wavSamples gives the data chunk of a WAV file, and its bytes for a second.
func wavSamples(audio []byte) (samples []byte, perSecond uint32) {
	const header, chunkHeader, rateAt = 12, 8, 8

	if len(audio) < header || !bytes.HasPrefix(audio, []byte("RIFF")) {
		return nil, 0
	}

	for rest := audio[header:]; len(rest) >= chunkHeader; {
		size := min(int(binary.LittleEndian.Uint32(rest[4:])), len(rest)-chunkHeader)
		chunk := rest[chunkHeader : chunkHeader+size]

		switch string(rest[:4]) {
		case "fmt ":
			if size >= rateAt+4 {
				perSecond = binary.LittleEndian.Uint32(chunk[rateAt:])
			}
		case "data":
			return chunk, perSecond
		}

		rest = rest[min(chunkHeader+size+size%2, len(rest)):] // chunks are padded to even sizes
	}

	return nil, perSecond
}
