package model_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
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

// testdata/faults.json has errors of the known servers in their own words.
func TestStream_faultsOfKnownServers(t *testing.T) {
	text, err := os.ReadFile("testdata/faults.json")
	require.NoError(t, err)

	var table []struct {
		Server string            `json:"server"`
		Status int               `json:"status"`
		Body   string            `json:"body"`
		Fault  domain.ModelFault `json:"fault"`
	}

	require.NoError(t, json.Unmarshal(text, &table))

	for _, row := range table {
		t.Run(fmt.Sprintf("%s %d %s", row.Fault, row.Status, row.Server), func(t *testing.T) {
			_, err := call(t, server(t, status(row.Status, row.Body)))
			fault := requireFault(t, err, row.Fault)
			require.Equal(t, row.Status, fault.Status)
			require.NotEmpty(t, fault.Message)

			// The same words in the middle of a stream, where they are decisive.
			if json.Valid([]byte(row.Body)) && row.Fault == domain.FaultContextOverflow && row.Status != 413 && row.Body[0] == '{' {
				_, err := call(t, server(t, events(delta(`{"content":"a"}`), "event: error\ndata: "+row.Body)))
				requireFault(t, err, row.Fault)
			}
		})
	}
}

// A server that takes no body of this size refuses the picture, not the history.
func TestStream_tooLargeWithAPicture(t *testing.T) {
	p := ask()
	p.Messages[0].Parts = append(
		p.Messages[0].Parts,
		domain.ContentPart{Type: "image_url", ImageURL: &domain.ImageURL{URL: "data:image/png;base64,AAAA"}},
	)

	_, err := server(t, status(413, "")).Stream(t.Context(), p, nil)
	requireFault(t, err, domain.FaultRefused)

	_, err = server(t, status(413, `{"error":{"message":"prompt is too long"}}`)).Stream(t.Context(), p, nil)
	requireFault(t, err, domain.FaultContextOverflow)
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

	recogniser := model.NewSpeech(model.SpeechConfig{Client: c, Model: "asr", Timeout: time.Minute, MaxBytes: 1 << 10, MaxConcurrent: 1})
	_, err = recogniser.Transcribe(
		t.Context(),
		speech.Recording{Format: speech.AudioFormat{Name: "wav", MIME: "audio/wav"}, Data: []byte("RIFF")},
	)
	require.Equal(t, http.StatusTemporaryRedirect, requireFault(t, err, domain.FaultRefused).Status)
	require.Empty(t, asked)
}
