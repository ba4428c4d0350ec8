package api_test

import (
	"bufio"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/auth"
	"everloop/domain"
	"everloop/service/accounts"
)

// sse reads server-sent events.
type sse struct {
	t        *testing.T
	response *http.Response
	lines    *bufio.Scanner
}

type sent struct{ id, name, data, comment string }

func (w *world) stream(method, path, key, body string, changes ...with) *sse {
	w.t.Helper()

	changes = append(changes, header("Accept", "text/event-stream"))
	response, err := http.DefaultTransport.RoundTrip(w.request(method, path, key, body, changes...))
	require.NoError(w.t, err)
	require.Equal(w.t, 200, response.StatusCode)
	require.Equal(w.t, "text/event-stream", response.Header.Get("Content-Type"))
	w.t.Cleanup(func() { _ = response.Body.Close() })
	s := &sse{w.t, response, bufio.NewScanner(response.Body)}
	s.lines.Buffer(nil, 1<<20)

	return s
}

// next reads one event or comment; ok is false at the end.
func (s *sse) next() (e sent, ok bool) {
	s.t.Helper()

	for s.lines.Scan() {
		line := s.lines.Text()
		if line == "" {
			return e, true
		}

		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")

		switch name {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data += value
		case "":
			e.comment = value
		}
	}

	return e, false
}

// event is next without comments.
func (s *sse) event() sent {
	s.t.Helper()

	for {
		e, ok := s.next()
		require.True(s.t, ok, "the stream ended")

		if e.comment == "" {
			return e
		}
	}
}

func TestEventsStreamAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.session(`{}`)
	w.streams.publish("old", "", `{}`)
	s := w.stream("GET", "/api/sessions/"+id+"/events", w.ann, "")
	require.NotEmpty(t, s.response.Header.Get("X-Request-Id"))
	require.Equal(t, "no-store", s.response.Header.Get("Cache-Control"))
	first, ok := s.next()
	require.True(t, ok)
	require.NotEmpty(t, first.comment, "the first byte comes before anything happens")
	w.streams.publish("turn:patch", "c1", "{\"text_delta\":\"a\\nb\"}")

	e := s.event()
	require.Equal(t, "2", e.id)
	require.Equal(t, "turn:patch", e.name)

	var data map[string]any
	require.NoError(t, json.Unmarshal([]byte(e.data), &data))
	require.Equal(t, "a\nb", data["text_delta"])
	require.EqualValues(t, 2, data["seq"])
	require.EqualValues(t, 1, data["prev_seq"])
	require.Equal(t, "c1", data["chat_id"])
	w.streams.publish("chat:end", "c1", `{}`)
	require.Equal(t, "chat:end", s.event().name, "the stream goes on over the ends of chats")
}

func TestEventsResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	id := w.session(`{}`)
	for i := range 5 {
		w.streams.publish("e"+strconv.Itoa(i+1), "", `{}`)
	}

	path := "/api/sessions/" + id + "/events"
	require.Equal(t, "1", w.stream("GET", path+"?after_seq=0", w.ann, "").event().id)
	require.Equal(t, "4", w.stream("GET", path+"?after_seq=3", w.ann, "").event().id)
	require.Equal(t, "5", w.stream("GET", path+"?after_seq=1", w.ann, "", header("Last-Event-ID", "4")).event().id)
	require.Equal(t, []string{"header.Last-Event-ID"}, w.do("GET", path, w.ann, "", header("Last-Event-ID", "x")).fields())
}

func TestAStreamEnds(t *testing.T) {
	t.Parallel()

	fast := func(c *parts) { c.StreamPulse = 20 * time.Millisecond }
	drained := func(t *testing.T, w *world) {
		require.Eventually(t, func() bool { return w.streams.subscribers() == 0 }, time.Minute, 5*time.Millisecond)
	}
	t.Run("when its client leaves", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, fast)
		s := w.stream("GET", "/api/sessions/"+w.session(`{}`)+"/events", w.ann, "")
		_, _ = s.next()
		pulse, _ := s.next()
		require.Equal(t, "pulse", pulse.comment)
		require.Equal(t, 1, w.streams.subscribers())
		require.NoError(t, s.response.Body.Close())
		drained(t, w)
	})
	t.Run("when its key is revoked", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, fast)
		id := w.session(`{}`)
		made := w.do("POST", "/api/user/api-keys/", w.ann, `{"name":"k"}`).json()
		s := w.stream("GET", "/api/sessions/"+id+"/events", made["plaintext"].(string), "")
		_, _ = s.next()

		require.Equal(t, 204, w.do("DELETE", "/api/user/api-keys/"+made["key"].(map[string]any)["id"].(string), w.ann, "").status)

		e := s.event()
		require.Equal(t, "session:error", e.name)
		require.JSONEq(t, `{"session_id":"`+id+`","event":"session:subscribe","error":
			{"code":"unauthorized","message":"the credential is not valid any more","retryable":false}}`, e.data)

		_, more := s.next()
		require.False(t, more)
		drained(t, w)
	})
	t.Run("when the session is no longer shared", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, fast)
		id := w.session(`{}`)
		w.do("PATCH", "/api/sessions/"+id+"/sharing", w.ann, `{"shared":true}`)
		s := w.stream("GET", "/api/sessions/"+id+"/events", w.bob, "")
		_, _ = s.next()

		w.do("PATCH", "/api/sessions/"+id+"/sharing", w.ann, `{"shared":false}`)
		require.Equal(t, "session:error", s.event().name)
		drained(t, w)
	})

	never := func(c *parts) { c.StreamPulse = time.Hour }

	t.Run("at once when the session is no longer shared, for those who lose it", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, never)
		id := w.session(`{}`)
		w.do("PATCH", "/api/sessions/"+id+"/sharing", w.ann, `{"shared":true}`)
		own := w.stream("GET", "/api/sessions/"+id+"/events", w.ann, "")
		s := w.stream("GET", "/api/sessions/"+id+"/events", w.bob, "")
		_, _ = s.next()

		w.do("PATCH", "/api/sessions/"+id+"/sharing", w.ann, `{"shared":false}`)
		require.Equal(t, "session:error", s.event().name)
		w.streams.publish("e1", "", `{}`)
		require.Equal(t, "e1", own.event().name)
	})
	t.Run("at once when the key is revoked, here or in another process", func(t *testing.T) {
		t.Parallel()

		rights := auth.NewChanges(nil, slog.Default())
		w := newWorld(t, never, func(c *parts) { c.Rights = rights })
		id := w.session(`{}`)
		revoke := func(elsewhere bool) {
			key, plaintext, hash := auth.NewKey(w.annID, "to revoke")
			_, err := accounts.New(w.db.DB).CreateKey(t.Context(), key, hash[:])
			require.NoError(t, err)

			s := w.stream("GET", "/api/sessions/"+id+"/events", plaintext, "")
			_, _ = s.next()

			if elsewhere {
				require.NoError(t, accounts.New(w.db.DB).RevokeKey(t.Context(), w.annID, key.ID))
				rights.Receive(t.Context(), domain.RightsChange{KeyID: key.ID})
			} else {
				require.Equal(t, 204, w.do("DELETE", "/api/user/api-keys/"+key.ID, w.ann, "").status)
			}

			e := s.event()
			require.Equal(t, "session:error", e.name)
			require.Contains(t, e.data, domain.CodeUnauthorized)
		}
		own := w.stream("GET", "/api/sessions/"+id+"/events", w.ann, "")
		_, _ = own.next()

		revoke(false)
		revoke(true)
		w.streams.publish("e1", "", `{}`)
		require.Equal(t, "e1", own.event().name, "streams of other keys go on")
	})
	t.Run("at once when the right ends while the stream is made", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, never)
		id := w.session(`{}`)
		w.do("PATCH", "/api/sessions/"+id+"/sharing", w.ann, `{"shared":true}`)
		w.streams.meets = func() { w.do("PATCH", "/api/sessions/"+id+"/sharing", w.ann, `{"shared":false}`) }

		require.Equal(t, "session:error", w.stream("GET", "/api/sessions/"+id+"/events", w.bob, "").event().name)
		drained(t, w)

		made := w.do("POST", "/api/user/api-keys/", w.ann, `{"name":"k"}`).json()
		w.streams.meets = func() {
			w.do("DELETE", "/api/user/api-keys/"+made["key"].(map[string]any)["id"].(string), w.ann, "")
		}

		e := w.stream("POST", "/api/sessions/"+id+"/chat", made["plaintext"].(string), `{"message":"hi"}`).event()
		require.Equal(t, "session:error", e.name)
		require.Contains(t, e.data, domain.CodeUnauthorized)
		drained(t, w)
	})
	t.Run("at once when the session is deleted", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, never, func(c *parts) { c.Session.Deleter = c.store.DeleteSession })
		id, other := w.session(`{}`), w.session(`{}`)
		s, stays := w.stream("GET", "/api/sessions/"+id+"/events", w.ann, ""), w.stream("GET", "/api/sessions/"+other+"/events", w.ann, "")
		_, _ = s.next()

		require.Equal(t, 200, w.do("DELETE", "/api/sessions/"+id, w.ann, "").status)

		e := s.event()
		require.Equal(t, "session:error", e.name)

		var failed struct {
			SessionID domain.SessionID `json:"session_id"`
			Error     struct{ Code string }
		}
		require.NoError(t, json.Unmarshal([]byte(e.data), &failed))
		require.Equal(t, []string{id, "session_not_found"}, []string{string(failed.SessionID), failed.Error.Code})

		_, more := s.next()
		require.False(t, more)
		w.streams.publish("e1", "", `{}`)
		require.Equal(t, "e1", stays.event().name)
	})
	t.Run("with a place to go on when it was too slow", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.streams.publish("e1", "", `{}`)
		s := w.stream("GET", "/api/sessions/"+w.session(`{}`)+"/events?after_seq=0", w.ann, "")
		require.Equal(t, "e1", s.event().name)
		w.streams.mu.Lock()
		w.streams.broken = true
		w.streams.mu.Unlock()
		w.streams.publish("e2", "", `{}`)

		e := s.event()
		require.Equal(t, "session:resync", e.name)
		require.Contains(t, e.data, `"seq":1,`)
		require.Contains(t, e.data, `"session_id":`)
	})
	t.Run("when the service shuts down", func(t *testing.T) {
		t.Parallel()

		var s *sse

		t.Run("serving", func(t *testing.T) {
			w := newWorld(t) // its end waits for all connections
			s = w.stream("GET", "/api/sessions/"+w.session(`{}`)+"/events", w.ann, "")
			_, _ = s.next()
		})

		_, more := s.next()
		require.False(t, more)
	})
}

func TestChat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.session(`{}`)
	path := "/api/sessions/" + id + "/chat"
	r := w.do("POST", path, w.ann, `{"message":"hello","mode":"planning","delivery":"steer","client_message_id":"m1"}`)
	require.Equal(t, 202, r.status)
	accepted := r.json()
	require.NotEmpty(t, accepted["chat_id"])
	require.NotEmpty(t, accepted["turn_id"])
	require.Equal(t, "run", accepted["delivery_applied"])
	require.EqualValues(t, 0, accepted["position"])
	require.Equal(t, false, accepted["duplicate"])

	sent := w.chats.messages()[0]
	require.EqualValues(t, id, sent.SessionID)
	require.Equal(t, domain.TriggerAPI, sent.Trigger)
	require.Equal(t, domain.ModePlanning, sent.Mode)
	require.Equal(t, domain.DeliverSteer, sent.Delivery)

	again := w.do("POST", path, w.ann, `{"message":"hello","client_message_id":"m1"}`).json()
	require.Equal(t, true, again["duplicate"])
	require.Equal(t, accepted["chat_id"], again["chat_id"])

	answered := w.do("POST", path, w.ann, `{"message":"","askuser_answer":{"tool_call_id":"open","selections":{"0":[1]},"custom":{}}}`).
		json()
	require.Equal(t, map[string]any{"chat_id": "c", "question_id": "q", "resolved": true}, answered)

	w.chats.err = domain.Newf(domain.Conflict, domain.CodeSessionBusy, "a chat is running in this session")
	p := w.do("POST", path, w.ann, `{"message":"x","delivery":"reject"}`).problem(409)
	require.Equal(t, "session_busy", p["code"])
	require.Equal(t, true, p["retryable"])

	require.Equal(t, map[string]any{"stopped": true}, w.do("POST", "/api/sessions/"+id+"/stop", w.ann, "").json())
	w.do("POST", "/api/sessions/"+id+"/stop", w.ann, `{"scope":"chat_and_queue"}`)
	require.Equal(t, []bool{false, true}, w.chats.stop)
}

func TestChatAsAStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.session(`{}`)
	w.chats.then = func(ack domain.SendAck) {
		go func() {
			w.streams.publish("chat:end", "another chat", `{}`)
			w.streams.publish("chat:start", ack.ChatID, `{}`)
			w.streams.publish("turn:patch", ack.ChatID, `{"text_delta":"x"}`)
			w.streams.publish("session:updated", "", `{}`)
			w.streams.publish("chat:end", ack.ChatID, `{"status":"completed"}`)
		}()
	}
	names := func(s *sse) (all []string) {
		for {
			e, ok := s.next()
			if !ok {
				return all
			}

			if e.comment == "" {
				all = append(all, e.name)
			}
		}
	}
	// All events of the session, to the end of this chat and of no other.
	want := []string{"chat:end", "chat:start", "turn:patch", "session:updated", "chat:end"}
	path := "/api/sessions/" + id + "/chat"
	require.Equal(t, want, names(w.stream("POST", path, w.ann, `{"message":"hello"}`)))
	require.Eventually(t, func() bool { return w.streams.subscribers() == 0 }, time.Minute, 5*time.Millisecond)

	t.Run("a repeat returns the same chat and sends nothing", func(t *testing.T) {
		key := header("Idempotency-Key", "k1")
		require.Equal(t, want, names(w.stream("POST", path, w.ann, `{"message":"again"}`, key)))
		before := len(w.chats.messages())
		again := names(w.stream("POST", path, w.ann, `{"message":"again"}`, key))
		require.Equal(t, want[1:], again, "from the chat's start on")

		r := w.do("POST", path, w.ann, `{"message":"again"}`, key)
		require.Equal(t, 202, r.status, "also to a client that takes no events")
		require.Equal(t, "true", r.header.Get("Idempotency-Replayed"))
		require.Len(t, w.chats.messages(), before)
		w.do("POST", path, w.ann, `{"message":"other"}`, key).code(409, "idempotency_key_reused")
	})
	t.Run("a refused message is a plain error", func(t *testing.T) {
		w.do("POST", path, w.ann, `{"message":""}`, header("Accept", "text/event-stream")).code(422, "invalid_request")
		require.Zero(t, w.streams.subscribers())
	})
	t.Run("an answer that came too late starts no stream", func(t *testing.T) {
		r := w.do(
			"POST",
			path,
			w.ann,
			`{"askuser_answer":{"tool_call_id":"late","selections":{"0":[0]}}}`,
			header("Accept", "text/event-stream"),
		)
		require.Equal(t, 202, r.status)
		require.Equal(t, false, r.json()["resolved"])
		require.Zero(t, w.streams.subscribers())
	})
}
