package gateway

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// slowReader is a client that takes its time for each flush.
type slowReader struct {
	*httptest.ResponseRecorder
	takes time.Duration
}

func (r *slowReader) FlushError() error {
	time.Sleep(r.takes) //nolint:forbidigo // in a synctest bubble

	return nil
}

// A slow client does not count as a silent source, and what keeps its connection alive does
// not count as data.
func TestRelay_silence(t *testing.T) {
	t.Parallel()

	const first = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n"

	for name, c := range map[string]struct {
		takes, keepAlive time.Duration
		rest             string // of the source's, after the first line; empty: it is silent
		code             string
		sign             string // which the source sends each second, instead of the rest
	}{
		"slow client":            {time.Minute, time.Hour, "\ndata: [DONE]\n\n", "", ""},
		"silent source":          {0, time.Second, "", "source_timeout", ""},
		"both, with keep-alives": {time.Minute, time.Second / 2, "", "source_timeout", ""},
		"comments":               {0, time.Hour, "", "source_timeout", ": working\n\n"},
		"blank lines":            {0, time.Hour, "", "source_timeout", "\n"},
		"data without a value":   {0, time.Hour, "", "source_timeout", "data:\n\n"},
		"pings":                  {0, time.Hour, "", "source_timeout", "event: ping\ndata: {\"type\": \"ping\"}\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				to := &source{Source: Source{Name: "s", IdleTimeoutS: 2, TimeoutS: 2}}
				w := &slowReader{httptest.NewRecorder(), c.takes}

				in, out := io.Pipe()
				defer in.Close()

				go func() {
					_, _ = io.WriteString(out, first)

					for range 60 * min(len(c.sign), 1) {
						time.Sleep(time.Second) //nolint:forbidigo // in a synctest bubble

						if _, err := io.WriteString(out, c.sign); err != nil {
							return
						}
					}

					if c.sign != "" { // a source that counts as alive
						_ = out.Close()
					}

					if c.rest != "" {
						_, _ = io.WriteString(out, c.rest)
						_ = out.Close()
					}
				}()

				y := &relay{
					call: &call{service: &Service{cfg: Config{KeepAlive: c.keepAlive}}}, to: to, w: w, cancel: cancel,
					timer: time.AfterFunc(to.timeout(), func() { cancel(errSlow) }), due: time.Now().Add(to.timeout()),
				}
				y.run(ctx, &http.Response{Body: in})

				_ = in.Close()

				time.Sleep(time.Minute) //nolint:forbidigo // in a synctest bubble: the source notices the closed pipe

				text := w.Body.String()
				require.True(t, strings.HasPrefix(text, first), text)
				require.Equal(t, c.code != "", strings.Contains(text, "error"), text)
				require.Contains(t, text, c.code)
				require.Equal(t, c.code == "", strings.HasSuffix(text, "data: [DONE]\n\n"), text)
			})
		})
	}
}
