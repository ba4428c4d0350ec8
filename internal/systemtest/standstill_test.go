package systemtest

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/internal/testkit"
)

// standstill is how long NATS stands still: longer than any time limit of a publish.
const standstill = 20 * time.Second

// NATS stands still while a model streams, and the model continues: each piece of text
// arrives once, the model is called once, and the chat ends once.
func TestChat_eventLogStandsStill(t *testing.T) {
	t.Parallel()
	proxy := testkit.Proxy(t, testkit.Events(t))

	var calls atomic.Int32

	s := newStackOn(t, func(mock http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/chat/completions") {
				calls.Add(1)
			}

			mock.ServeHTTP(w, r)
		})
	}, proxy.URL(t, testkit.Events(t)), nil, nil)
	session := s.session()
	text := strings.Repeat("some words of a long answer; ", 50)
	ack := s.send(session, script(obj{"steps": []obj{{"text": text, "delay_ms": 100, "chunk": 6}}, "note": session}))
	s.await(session, domain.EventTurnPatch, func(d map[string]any) bool { return d["patch_type"] == "add_content" })
	proxy.Pause()

	still := time.NewTimer(standstill)
	defer still.Stop()

	select {
	case <-still.C:
	case <-t.Context().Done():
	}

	proxy.Resume()

	require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["finish_reason"])

	said, ends, prev := "", 0, uint64(0)
	for _, e := range s.events(session) {
		require.Equal(t, prev, e.PrevSeq)
		prev = e.Seq

		d := fields(e)
		if e.Name == domain.EventChatEnd {
			ends++
		}

		if d["patch_type"] == "add_content" {
			require.EqualValues(t, len(said), d["offset"], "each offset arrives once")
			said += d["text_delta"].(string)
		}
	}

	require.Equal(t, text, said)
	require.Equal(t, 1, ends)
	require.EqualValues(t, 1, calls.Load(), "the model is called once")
}
