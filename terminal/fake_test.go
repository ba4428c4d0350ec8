package terminal

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// fake is a service with one session whose events the test writes.
type fake struct {
	t       *testing.T
	server  *httptest.Server
	mu      sync.Mutex
	grown   *sync.Cond
	events  []string // as sent, seq = 10 * (index + 1)
	status  string
	lastEnd any    // of the session
	turns   string // answer of GET …/messages
	posts   []map[string]any
	stops   int
	streams []string // after_seq of each stream; "live" without
	// cut ends the n-th stream, from 0, after that many events.
	cut map[int]int
	// onPost returns the response to each message and answer.
	onPost  func(body map[string]any) (int, any)
	onStop  func()
	onShown func() // called when the command has shown something
}

func newFake(t *testing.T) *fake {
	f := &fake{t: t, cut: map[int]int{}, status: "completed", turns: "[]"}
	f.grown = sync.NewCond(&f.mu)
	mux := http.NewServeMux()
	mux.HandleFunc(
		"POST /api/sessions", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, map[string]any{"session_id": "s1"}) },
	)
	mux.HandleFunc("GET /api/sessions", func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()

		_, _ = fmt.Fprintf(jsonHead(w), `{"items":[{"id":"old","updated_at":"2026-01-01T00:00:00Z","replay_state":null},
			{"id":"s1","status":%q,"updated_at":"2026-02-01T00:00:00Z","replay_state":null},
			{"id":"played","updated_at":"2026-03-01T00:00:00Z","replay_state":{}}]}`, f.status)
	})
	mux.HandleFunc("GET /api/sessions/s1", func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()

		answer(w, 200, map[string]any{"id": "s1", "status": f.status, "last_end": f.lastEnd})
	})
	mux.HandleFunc("GET /api/sessions/s1/messages", func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()

		_, _ = fmt.Fprint(jsonHead(w), f.turns)
	})
	mux.HandleFunc("POST /api/sessions/s1/stop", func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		f.stops++
		f.mu.Unlock()

		if f.onStop != nil {
			f.onStop()
		}

		answer(w, 200, map[string]any{"stopped": true})
	})
	mux.HandleFunc("POST /api/sessions/s1/chat", func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if json.NewDecoder(r.Body).Decode(&body) != nil {
			t.Error("the body is not JSON")
		}

		f.mu.Lock()
		f.posts = append(f.posts, body)
		f.mu.Unlock()
		status, content := f.onPost(body)
		answer(w, status, content)
	})
	mux.HandleFunc("GET /api/sessions/s1/events", f.stream)
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer el_right" {
			answer(w, 401, map[string]any{"status": 401, "code": "unauthorized", "detail": "valid credentials are required"})
			return
		}

		mux.ServeHTTP(w, r)
	}))

	t.Cleanup(func() {
		f.server.CloseClientConnections()
		f.server.Close()
	})

	return f
}

func jsonHead(w http.ResponseWriter) http.ResponseWriter {
	w.Header().Set("Content-Type", "application/json")
	return w
}

func answer(w http.ResponseWriter, status int, content any) {
	jsonHead(w).WriteHeader(status)
	_ = json.NewEncoder(w).Encode(content)
}

// emit adds an event, given as its name and its fields.
func (f *fake) emit(name, fields string) {
	f.mu.Lock()
	defer f.mu.Unlock()

	seq, before := 10*(len(f.events)+1), 10*len(f.events)
	f.events = append(f.events, fmt.Sprintf("id: %d\nevent: %s\ndata: {\"seq\":%d,\"prev_seq\":%d,%s}\n\n", seq, name, seq, before, fields))
	f.grown.Broadcast()
}

// text emits a piece of the answer of chat c1.
func (f *fake) text(text string) {
	f.emit("turn:patch", fmt.Sprintf(`"chat_id":"c1","turn_id":"t1","patch_type":"add_content","block_type":"text","text_delta":%q`, text))
}

func (f *fake) end(reason string) {
	status := map[string]string{"completed": "completed", "awaiting_answer": "completed", "interrupted": "interrupted"}[reason]
	if status == "" {
		status = "failed"
	}

	f.emit(
		"chat:end",
		fmt.Sprintf(`"chat_id":"c1","status":%q,"finish_reason":%q,"steps":1,"duration_ms":5,"result":{"output":{"n":1}}`, status, reason),
	)
}

func (f *fake) stream(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()

	number, at := len(f.streams), len(f.events)

	after := r.URL.Query().Get("after_seq")
	if after != "" {
		seq, err := strconv.Atoi(after)
		require.NoError(f.t, err)

		at = seq / 10

		f.streams = append(f.streams, after)
	} else {
		f.streams = append(f.streams, "live")
	}

	f.grown.Broadcast()
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprint(w, ": open\n\n")
	w.(http.Flusher).Flush()

	stop := make(chan struct{})
	defer close(stop)

	go func() {
		select {
		case <-r.Context().Done():
			f.mu.Lock()
			f.grown.Broadcast()
			f.mu.Unlock()
		case <-stop:
		}
	}()

	limit, cut := f.cut[number]
	for sent := 0; !cut || sent < limit; sent++ {
		for at >= len(f.events) && r.Context().Err() == nil {
			f.grown.Wait()
		}

		if r.Context().Err() != nil {
			return
		}

		_, _ = fmt.Fprint(w, f.events[at])
		w.(http.Flusher).Flush()

		at++
	}

	if at < len(f.events) { // the connection breaks in the middle of an event
		_, _ = fmt.Fprint(w, f.events[at][:len(f.events[at])/2])
		w.(http.Flusher).Flush()
	}

	panic(http.ErrAbortHandler)
}

// waitStreams waits until n streams were opened.
func (f *fake) waitStreams(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()

	for len(f.streams) < n {
		f.grown.Wait()
	}
}

func (f *fake) seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()

	return append([]string(nil), f.streams...)
}

// accept answers a message with chat c1.
func accept(map[string]any) (int, any) { return 202, map[string]any{"chat_id": "c1", "turn_id": "u1"} }

const askedOnce = `[{"chat_id":"c1","tool_calls":[{"id":"old","status":"done","arguments":"{}"},{"id":"q1","status":"awaiting_answer",
"arguments":"{\"questions\":[` +
	`{\"question\":\"Which colour?\",\"header\":\"Colour\",` +
	`\"options\":[{\"label\":\"Blue\",\"description\":\"Like the sea\"},{\"label\":\"Green\"}]},` +
	`{\"question\":\"Which tools?\",\"multiSelect\":true,\"options\":[{\"label\":\"Shell\"},{\"label\":\"Editor\"}]}]}"}]}]`

// screen collects what the command shows.
type screen struct {
	mu    sync.Mutex
	text  strings.Builder
	once  sync.Once
	shown func() // called when the first thing is shown
}

func (s *screen) Write(b []byte) (int, error) {
	if s.shown != nil {
		s.once.Do(func() { go s.shown() })
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	return s.text.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.text.String()
}
