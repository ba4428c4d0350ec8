package webhooks

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"everloop/infra/netguard"
)

const (
	secret   = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	previous = "whsec_plJ3nmyCDGBKInavdOK15jsl"
)

// endpoint returns a server on this machine, and a sender that may reach it.
func endpoint(t *testing.T, handle http.HandlerFunc) (*sender, string) {
	t.Helper()

	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	guard, err := netguard.New([]string{strings.TrimPrefix(server.URL, "http://")}, nil)
	require.NoError(t, err)

	return newSender(guard), server.URL
}

func TestSender_send_signs(t *testing.T) {
	t.Parallel()
	sender, url := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)

		for _, known := range []string{secret, previous} {
			verifier, err := standardwebhooks.NewWebhook(known)
			if err == nil {
				err = verifier.Verify(body, r.Header)
			}

			if err != nil {
				http.Error(w, err.Error(), http.StatusUnauthorized)
				return
			}
		}

		_, _ = io.WriteString(w, "taken "+r.Header.Get("webhook-id")+" "+string(body))
	})
	answer := sender.send(t.Context(), url+"/x", "msg_1", `{"a":1}`, []string{secret, previous})
	require.Empty(t, answer.Error)
	require.Equal(t, 200, answer.StatusCode)
	require.Equal(t, `taken msg_1 {"a":1}`, answer.Response)
	require.Equal(t, 401, sender.send(t.Context(), url, "msg_1", `{}`, []string{secret}).StatusCode, "the other secret is not there")
}

func TestSender_send_outcomes(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		handle http.HandlerFunc
		status int
		err    string
		after  time.Duration
	}{
		"an error status": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, 500, "the endpoint answered 500", 0},
		"a redirect is not followed": {
			func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
			302, "the endpoint answered 302", 0,
		},
		"it asks for a pause": {
			func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "120"); w.WriteHeader(429) },
			429, "the endpoint answered 429", 2 * time.Minute,
		},
		"it hangs up": {
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			0, "the answer broke off or could not be understood", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sender, url := endpoint(t, c.handle)
			answer := sender.send(t.Context(), url+"/secret-path", "m", "{}", []string{secret})
			require.Equal(t, c.status, answer.StatusCode)
			require.Equal(t, c.err, answer.Error)
			require.Equal(t, c.after, answer.RetryAfter)
		})
	}
}

func TestSender_send_isBounded(t *testing.T) {
	t.Parallel()

	release := make(chan struct{})
	sender, url := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			select {
			case <-release:
			case <-r.Context().Done():
			}

			return
		}

		for range 1000 {
			if _, err := io.WriteString(w, strings.Repeat("x", 1<<10)); err != nil {
				return
			}
		}
	})
	t.Cleanup(func() { close(release) })
	answer := sender.send(t.Context(), url, "m", "{}", []string{secret})
	require.Empty(t, answer.Error)
	require.Len(t, answer.Response, 4096)

	sender.time = 50 * time.Millisecond
	answer = sender.send(t.Context(), url+"/hang", "m", "{}", []string{secret})
	require.Equal(t, "the endpoint did not answer in time", answer.Error)
}

func TestSender_send_refusesWhatIsNotPublic(t *testing.T) {
	t.Parallel()
	_, url := endpoint(t, func(http.ResponseWriter, *http.Request) { t.Error("it was connected to") })
	guard, err := netguard.New(nil, nil)
	require.NoError(t, err)

	sender := newSender(guard)
	for _, target := range []string{url, strings.Replace(url, "127.0.0.1", "localhost", 1), "http://169.254.169.254/latest/meta-data"} {
		answer := sender.send(t.Context(), target, "m", "{}", []string{secret})
		require.Contains(t, answer.Error, "not on the public Internet", target)
		require.Zero(t, answer.StatusCode)
	}
}
