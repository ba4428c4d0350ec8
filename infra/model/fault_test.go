package model_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/speech"
	"everloop/infra/model"
)

// status answers with an HTTP error.
func status(code int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}

		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

func TestHTTPFaults(t *testing.T) {
	tests := []struct {
		code int
		body string
		want domain.ModelFault
	}{
		{408, ``, domain.FaultTransient},
		{409, ``, domain.FaultTransient},
		{500, `{"error":{"message":"oops"}}`, domain.FaultTransient},
		{502, `<html>bad gateway</html>`, domain.FaultTransient},
		{503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, domain.FaultTransient},
		{504, ``, domain.FaultTransient},
		{529, ``, domain.FaultTransient},
		{429, `{"error":{"message":"Request too large: maximum context length"}}`, domain.FaultRateLimited},
		{400, `{"error":{"message":"bad","type":"invalid_request_error"}}`, domain.FaultRefused},
		{400, `not json`, domain.FaultRefused},
		{401, `{"error":{"message":"no key"}}`, domain.FaultRefused},
		{403, `{"error":"forbidden"}`, domain.FaultRefused},
		{422, `{"detail":[{"loc":["body"],"msg":"field required"}]}`, domain.FaultRefused},
		{404, `{"error":{"message":"The model does not exist","code":"model_not_found"}}`, domain.FaultUnknownModel},
		{404, `404 page not found`, domain.FaultUnknownModel},
		{400, `{"error":{"message":"no","code":"model_not_found"}}`, domain.FaultUnknownModel},
		// OpenAI
		{
			400,
			`{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 ` +
				`tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`,
			domain.FaultContextOverflow,
		},
		{
			400,
			`{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","code":null}}`,
			domain.FaultContextOverflow,
		},
		// vLLM, old and new shape
		{
			400,
			`{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 ` +
				`tokens","type":"BadRequestError","param":null,"code":400}`,
			domain.FaultContextOverflow,
		},
		{
			400,
			`{"error":{"message":"The decoder prompt (length 9000) is longer than the maximum model length of ` +
				`4096.","type":"BadRequestError","code":400}}`,
			domain.FaultContextOverflow,
		},
		// llama.cpp
		{
			400,
			`{"error":{"code":400,"message":"the request exceeds the available context size, try increasing ` +
				`it","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":4096}}`,
			domain.FaultContextOverflow,
		},
		{500, `{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}`, domain.FaultContextOverflow},
		// SGLang
		{
			400,
			`{"object":"error","message":"The input (9000 tokens) is longer than the model's context length (4096 tokens).","code":400}`,
			domain.FaultContextOverflow,
		},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d %.40s", tt.code, tt.body), func(t *testing.T) {
			_, err := call(t, server(t, status(tt.code, tt.body)))
			fault := requireFault(t, err, tt.want)
			require.Equal(t, tt.code, fault.Status)
			require.NotEmpty(t, fault.Message)
		})
	}
}

func TestRetryAfter(t *testing.T) {
	in90 := time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat)

	tests := []struct {
		name, header, value string
		low, high           time.Duration
	}{
		{"seconds", "Retry-After", "7", 7 * time.Second, 7 * time.Second},
		{"fraction", "Retry-After", "1.5", 1500 * time.Millisecond, 1500 * time.Millisecond},
		{"date", "Retry-After", in90, 80 * time.Second, 91 * time.Second},
		{"date in the past", "Retry-After", "Mon, 02 Jan 2006 15:04:05 GMT", 0, 0},
		{"milliseconds", "Retry-After-Ms", "250", 250 * time.Millisecond, 250 * time.Millisecond},
		{"nonsense", "Retry-After", "soon", 0, 0},
		{"negative", "Retry-After", "-5", 0, 0},
		{"not a number", "Retry-After", "NaN", 0, 0},
		{"absurd", "Retry-After", "1e300", domain.MaxModelRetryS * time.Second, domain.MaxModelRetryS * time.Second},
		{"absent", "X-Other", "1", 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := call(t, server(t, status(429, `{}`, tt.header, tt.value)))
			fault := requireFault(t, err, domain.FaultRateLimited)
			require.GreaterOrEqual(t, fault.RetryAfter, tt.low)
			require.LessOrEqual(t, fault.RetryAfter, tt.high)
		})
	}
}

func TestFault_textIsCutAndHidesKey(t *testing.T) {
	_, err := call(t, server(t, status(401, `{"error":{"message":"Incorrect API key `+testKey+` `+strings.Repeat("é", 5000)+`"}}`)))
	fault := requireFault(t, err, domain.FaultRefused)
	require.Contains(t, fault.Message, "***")
	require.Less(t, len([]rune(fault.Message)), 560)
	require.Contains(t, fault.Message, "characters more")
}

// A redirect is an answer like any other that is no success: neither the prompt nor a
// recording goes to the address that it names.
func TestClient_followsNoRedirect(t *testing.T) {
	t.Parallel()

	asked := make(chan string, 10)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path }))
	t.Cleanup(elsewhere.Close)

	c := server(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})

	_, err := call(t, c)
	require.Equal(t, http.StatusTemporaryRedirect, requireFault(t, err, domain.FaultRefused).Status)
	_, err = c.Models(t.Context())
	require.Error(t, err)

	recogniser := model.NewSpeech(model.SpeechConfig{Client: c, Model: "asr", Timeout: time.Minute, MaxBytes: 1 << 10, AtOnce: 1})
	_, err = recogniser.Transcribe(
		t.Context(),
		speech.Recording{Format: speech.AudioFormat{Name: "wav", MIME: "audio/wav"}, Data: []byte("RIFF")},
	)
	require.Equal(t, http.StatusTemporaryRedirect, requireFault(t, err, domain.FaultRefused).Status)
	require.Empty(t, asked)
}
