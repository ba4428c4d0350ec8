package mock

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"everloop/internal/retry"

	"everloop/companions/edge"
)

// transcribe handles a transcription.
func (s *Service) transcribe(w http.ResponseWriter, r *http.Request) {
	in := s.bodies.Open(w, r)
	defer in.Release()

	r.Body = in

	audio, name, fault := formFile(r)
	if fault != nil {
		writeError(w, fault)
		return
	}

	key := fmt.Sprintf("%x", sha256.Sum256(audio))
	logged, _ := json.Marshal(map[string]any{"model": r.FormValue("model"), "file": name, "bytes": len(audio), "sha256": key})
	entry := s.requests.start(logged)
	s.requests.finish(entry, s.transcript(w, r, audio, key))
}

// formFile reads the field file of a form.
func formFile(r *http.Request) (content []byte, name string, fault *apiError) {
	file, header, err := r.FormFile("file")
	if err != nil {
		if fault = bodyError(err); fault.Status == http.StatusBadRequest {
			fault.Message = "file: a file is required"
		}

		return nil, "", fault
	}

	defer r.MultipartForm.RemoveAll() //nolint:errcheck // a temporary file
	defer file.Close()

	if content, err = io.ReadAll(file); err != nil {
		return nil, "", bodyError(err)
	}

	return content, header.Filename, nil
}

// transcript sends the answer and returns its outcome. The key counts for fail_times.
func (s *Service) transcript(w http.ResponseWriter, r *http.Request, audio []byte, key string) string {
	if name := r.FormValue("model"); name != SpeechModel {
		return refuse(w, invalid(http.StatusNotFound, "model_not_found",
			"The model `"+name+"` does not transcribe; this mock service has `"+SpeechModel+"`."))
	}

	text, seconds := transcribeWAV(audio)

	script, err := readScript(text)
	if err != nil {
		return refuse(w, badRequest("invalid script: %v", err))
	}

	if script != nil {
		step := script.step(0)
		text = step.Text

		if step.FailTimes > 0 {
			s.limitFaults(&step, key)
		}

		if !retry.Wait(r.Context(), time.Duration(step.FirstDelayMS)*time.Millisecond) {
			return outcomeGone
		}

		if step.Hold && s.held.wait(r.Context()) != nil {
			return outcomeGone
		}

		if step.Status != 0 {
			return refuse(w, step.fault())
		}
	}

	if !sendTranscript(w, r, text, seconds, len(audio)) {
		return refuse(w, badRequest("response_format must be json, text, srt, verbose_json or vtt"))
	}

	return outcomeDone
}

// sendTranscript sends a transcript of one segment as response_format and stream request. It
// reports whether the format is known.
func sendTranscript(w http.ResponseWriter, r *http.Request, text string, seconds float64, size int) bool {
	input, output := 1+size/1000, len(strings.Fields(text))
	usage := map[string]any{"type": "tokens", "input_tokens": input, "output_tokens": output, "total_tokens": input + output}
	answer := map[string]any{"text": text, "language": "en", "duration": seconds, "usage": usage}

	switch format := r.FormValue("response_format"); {
	case format == "srt":
		sendText(w, fmt.Sprintf("1\n%s --> %s\n%s\n\n", timestamp(0, ","), timestamp(seconds, ","), text))
	case format == "vtt":
		sendText(w, fmt.Sprintf("WEBVTT\n\n%s --> %s\n%s\n\n", timestamp(0, "."), timestamp(seconds, "."), text))
	case format == "text":
		sendText(w, text+"\n")
	case format == "verbose_json":
		answer["task"] = "transcribe"
		answer["segments"] = []any{map[string]any{"id": 0, "start": 0, "end": seconds, "text": text}}
		edge.WriteJSON(w, http.StatusOK, answer)
	case format != "" && format != "json":
		return false
	case r.FormValue("stream") == "true":
		w.Header().Set("Content-Type", "text/event-stream")

		for _, word := range strings.SplitAfter(text, " ") {
			sendEvent(w, map[string]any{"type": "transcript.text.delta", "delta": word})
		}

		sendEvent(w, map[string]any{"type": "transcript.text.done", "text": text, "usage": usage})
	default:
		edge.WriteJSON(w, http.StatusOK, answer)
	}

	return true
}

func sendText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text) // the client may have disconnected
}

func sendEvent(w http.ResponseWriter, data map[string]any) {
	text, _ := json.Marshal(data) // plain values
	fmt.Fprintf(w, "event: %s\ndata: %s\n\n", data["type"], text)
}

// timestamp formats seconds for subtitles, with point before the milliseconds.
func timestamp(seconds float64, point string) string {
	ms := int(seconds * 1000)
	return fmt.Sprintf("%02d:%02d:%02d%s%03d", ms/3_600_000, ms/60_000%60, ms/1000%60, point, ms%1000)
}

// transcribeWAV returns the text that the samples of a WAV file spell, or else a description
// of the recording.
func transcribeWAV(audio []byte) (text string, seconds float64) {
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

// wavSamples returns the data chunk of a WAV file and its bytes per second.
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
