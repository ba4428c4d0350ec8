package mock_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/companions/mock"
	"everloop/domain"
	domainspeech "everloop/domain/speech"
	"everloop/infra/model"
)

// wav returns a recording of 8,000 bytes a second with these samples.
func wav(samples string) domainspeech.Recording {
	data := "RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data" +
		string(binary.LittleEndian.AppendUint32(nil, uint32(len(samples)))) + samples
	format, _ := domainspeech.FindAudioFormat([]byte(data))

	return domainspeech.Recording{Data: []byte(data), Format: format}
}

func speech(b *bed, timeout time.Duration) *model.Speech {
	return model.NewSpeech(model.SpeechConfig{
		Client: b.client, Model: mock.SpeechModel, Timeout: timeout, MaxBytes: 1 << 20, MaxConcurrent: 2,
	})
}

func TestTranscribe(t *testing.T) {
	t.Parallel()

	b := start(t, mock.Config{})
	s := speech(b, time.Minute)

	heard, err := s.Transcribe(t.Context(), wav("what is the weather"))
	require.NoError(t, err)
	require.Equal(t, "what is the weather", heard.Text)
	require.Equal(t, mock.SpeechModel, heard.Model)
	require.EqualValues(t, 4, heard.Usage.OutputTokens)
	require.Positive(t, heard.Usage.InputTokens)

	heard, err = s.Transcribe(t.Context(), wav(strings.Repeat("\x00\x80", 4000)))
	require.NoError(t, err)
	require.Contains(t, heard.Text, "a scripted transcript, not speech: a recording of 8044 bytes")
	require.InEpsilon(t, 1.0, heard.DurationSeconds, 0.001)

	again, err := s.Transcribe(t.Context(), wav(strings.Repeat("\x00\x80", 4000)))
	require.NoError(t, err)
	require.Equal(t, heard, again)

	// A file that is cut within its header does not fail.
	rec := wav("x")
	rec.Data = rec.Data[:30]
	_, err = s.Transcribe(t.Context(), rec)
	require.NoError(t, err)
}

func TestTranscribe_faults(t *testing.T) {
	t.Parallel()

	b := start(t, mock.Config{})
	s := speech(b, time.Minute)

	order := func(step string) domainspeech.Recording {
		return wav("[[script]]{\"steps\":[" + step + "]}[[/script]]")
	}
	fault := func(rec domainspeech.Recording) *domain.ModelError {
		_, err := s.Transcribe(t.Context(), rec)

		var fault *domain.ModelError

		require.ErrorAs(t, err, &fault)

		return fault
	}

	require.Equal(t, domain.FaultRefused, fault(order(`{"status":400}`)).Fault)

	limited := fault(order(`{"status":429,"retry_after":7}`))
	require.Equal(t, domain.FaultRateLimited, limited.Fault)
	require.Equal(t, 7*time.Second, limited.RetryAfter)

	twice := order(`{"text":"third time","fail_times":2}`)
	require.Equal(t, domain.FaultTransient, fault(twice).Fault)
	require.Equal(t, 503, fault(twice).Status)

	heard, err := s.Transcribe(t.Context(), twice)
	require.NoError(t, err)
	require.Equal(t, "third time", heard.Text)

	s = speech(b, 50*time.Millisecond)

	require.Contains(t, fault(order(`{"text":"late","first_delay_ms":60000}`)).Message, "did not answer within 50ms")

	other := model.NewSpeech(
		model.SpeechConfig{Client: b.client, Model: mock.DemoModel, Timeout: time.Minute, MaxBytes: 1, MaxConcurrent: 1},
	)
	_, err = other.Transcribe(t.Context(), wav("x"))
	require.Equal(t, domainspeech.CodeDown, domain.AsError(domainspeech.Fault(err)).Code)
}

func TestTranscribe_forms(t *testing.T) {
	t.Parallel()

	b := start(t, mock.Config{})
	recording := wav("two words" + strings.Repeat(" ", 8000)) // a second and a bit

	for form, want := range map[string]string{
		"response_format=text": "two words\n",
		"response_format=srt":  "1\n00:00:00,000 --> 00:00:01,001\ntwo words\n\n",
		"response_format=vtt":  "WEBVTT\n\n00:00:00.000 --> 00:00:01.001\ntwo words\n\n",
		"stream=true": "event: transcript.text.delta\ndata: {\"delta\":\"two \",\"type\":\"transcript.text.delta\"}\n\n" +
			"event: transcript.text.delta\ndata: {\"delta\":\"words\",\"type\":\"transcript.text.delta\"}\n\n" +
			"event: transcript.text.done\ndata: {\"text\":\"two words\",\"type\":\"transcript.text.done\",\"usage\":" +
			"{\"input_tokens\":9,\"output_tokens\":2,\"total_tokens\":11,\"type\":\"tokens\"}}\n\n",
		"response_format=verbose_json": `{"duration":1.001125,"language":"en","segments":[{"end":1.001125,"id":0,"start":0,"text":"two words"}],` +
			`"task":"transcribe","text":"two words","usage":{"input_tokens":9,"output_tokens":2,"total_tokens":11,"type":"tokens"}}`,
		"response_format=wav": `response_format must be json, text, srt, verbose_json or vtt`,
	} {
		var body bytes.Buffer

		writer := multipart.NewWriter(&body)
		file, err := writer.CreateFormFile("file", "a.wav")
		require.NoError(t, err)
		_, err = file.Write(recording.Data)
		require.NoError(t, err)

		name, value, _ := strings.Cut(form, "=")
		require.NoError(t, errors.Join(writer.WriteField("model", mock.SpeechModel), writer.WriteField(name, value), writer.Close()))

		res, err := http.Post(b.url+"/v1/audio/transcriptions", writer.FormDataContentType(), &body)
		require.NoError(t, err)
		text, err := io.ReadAll(res.Body)
		require.NoError(t, errors.Join(err, res.Body.Close()))
		require.Contains(t, strings.TrimSuffix(string(text), "\n")+"\n", want, form)
	}
}
