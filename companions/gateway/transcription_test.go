package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestService_transcription_changesOnlyTheModel(t *testing.T) {
	t.Parallel()

	var (
		got  map[string][]string
		file string
	)

	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ParseMultipartForm(1<<20) == nil {
			got = r.MultipartForm.Value
			f, _ := r.MultipartForm.File["file"][0].Open()
			text, _ := io.ReadAll(f)
			file = r.MultipartForm.File["file"][0].Filename + ":" + string(text)
		}

		fmt.Fprint(w, `{"text":"hello"}`)
	})
	s := start(t, one(url, "")+"asr_model: m\n", 0)

	status, text := s.transcribe(operatorKey, "sound", map[string]string{"language": "en"})
	require.Equal(t, 200, status)
	require.JSONEq(t, `{"text":"hello"}`, text)
	require.Equal(t, map[string][]string{"model": {"m"}, "language": {"en"}}, got)
	require.Equal(t, "a.wav:sound", file)
}

// transcribe sends a recording, and gives the status and the text of the answer.
func (s *server) transcribe(key, sound string, fields map[string]string) (int, string) {
	s.t.Helper()

	var form bytes.Buffer

	writer := multipart.NewWriter(&form)
	part, err := writer.CreateFormFile("file", "a.wav")
	require.NoError(s.t, err)
	_, err = part.Write([]byte(sound))
	require.NoError(s.t, err)

	for name, value := range fields {
		require.NoError(s.t, writer.WriteField(name, value))
	}

	require.NoError(s.t, writer.Close())
	r, err := http.NewRequestWithContext(s.t.Context(), "POST", s.URL+"/v1/audio/transcriptions", &form)
	require.NoError(s.t, err)
	r.Header.Set("Content-Type", writer.FormDataContentType())
	r.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)

	defer res.Body.Close()

	return res.StatusCode, read(s.t, res)
}

func TestService_transcription_usage(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		status             int
		kind, answer, want string
	}{
		"seconds": {
			200, "application/json", `{"text":"a","usage":{"type":"duration","seconds":7}}`,
			`"estimated_requests":0,"prompt_tokens":0,"completion_tokens":0,"audio_bytes":9,"audio_seconds":7`,
		},
		"detailed": {
			200, "application/json", `{"text":"a","duration":2.5}`,
			`"estimated_requests":0,"prompt_tokens":0,"completion_tokens":0,"audio_bytes":9,"audio_seconds":2.5`,
		},
		"tokens": {
			200, "application/json", `{"text":"a","usage":{"type":"tokens","input_tokens":14,"output_tokens":3}}`,
			`"estimated_requests":0,"prompt_tokens":14,"completion_tokens":3,"audio_bytes":9`,
		},
		"stream": {
			200, "text/event-stream", `data: {"type":"transcript.text.delta","delta":"a"}` + "\n\n" +
				`data: {"type":"transcript.text.done","text":"a","usage":{"type":"tokens","input_tokens":14,"output_tokens":3}}` + "\n\n",
			`"estimated_requests":0,"prompt_tokens":14,"completion_tokens":3,"audio_bytes":9`,
		},
		"not reported": {
			200, "text/plain", "a", `"estimated_requests":1,"prompt_tokens":0,"completion_tokens":0,"audio_bytes":9`,
		},
		"refused": {
			400, "application/json", `{"error":{"message":"no sound"}}`, `"estimated_requests":0,"prompt_tokens":0,"completion_tokens":0`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // the answer does not depend on it

				w.Header().Set("Content-Type", c.kind)
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.answer)
			})
			s := start(t, one(url, "")+"asr_model: m\nkeys: [{name: speaker, key: key-of-the-speaker}]\n", 0)

			status, text := s.transcribe("key-of-the-speaker", "the sound", nil)
			require.Equal(t, c.status, status, text)
			require.Equal(t, c.answer, text)
			require.JSONEq(t, `{"usage":{"speaker":{"m":{"requests":1,`+c.want+`}}}}`,
				read(t, s.do(t.Context(), "GET", "/admin/usage", operatorKey, "")))
		})
	}
}
