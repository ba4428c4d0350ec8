package target

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"everloop/companions/mock"
)

// Model is the scripted model in this process. It answers at once and notes when
// each request came, got its first piece and was done, so that its own time can
// be taken off.
type Model struct {
	URL    string
	server *http.Server
	mu     sync.Mutex
	calls  []*ModelCall
}

// ModelCall is one request that the model answered.
type ModelCall struct {
	Arrived, First, Last time.Time
}

// Thinking is the model's own time until its first piece.
func (c *ModelCall) Thinking() time.Duration { return c.First.Sub(c.Arrived) }

// StartModel starts the model on a free port.
func StartModel() (*Model, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("scripted model: %w", err)
	}

	m := &Model{URL: "http://" + listener.Addr().String()}

	m.server = &http.Server{Handler: m.timed(mock.New(mock.Config{}).Handler()), ReadHeaderTimeout: time.Minute}
	go func() { _ = m.server.Serve(listener) }() // ends with close

	return m, nil
}

// Close ends the model.
func (m *Model) Close() { _ = m.server.Close() }

func (m *Model) timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/chat/completions") {
			next.ServeHTTP(w, r)
			return
		}

		call := &ModelCall{Arrived: time.Now()}

		m.mu.Lock()
		m.calls = append(m.calls, call)
		m.mu.Unlock()
		next.ServeHTTP(&timedWriter{ResponseWriter: w, model: m, call: call}, r)
		m.mu.Lock()
		call.Last = time.Now()
		m.mu.Unlock()
	})
}

// Take gives the calls since the last take, in the order of their arrival.
func (m *Model) Take() []ModelCall {
	m.mu.Lock()
	defer m.mu.Unlock()

	calls := make([]ModelCall, len(m.calls))
	for i, c := range m.calls {
		calls[i] = *c
	}

	m.calls = nil

	return calls
}

// One gives the single call since the last take.
func (m *Model) One() (ModelCall, error) {
	calls := m.Take()
	if len(calls) != 1 {
		return ModelCall{}, fmt.Errorf("the model was called %d times, not once", len(calls))
	}

	return calls[0], nil
}

// timedWriter notes the first flush, with which the mock sends its first piece.
type timedWriter struct {
	http.ResponseWriter
	model *Model
	call  *ModelCall
}

// FlushError is what http.ResponseController calls.
func (w *timedWriter) FlushError() error {
	w.model.mu.Lock()
	if w.call.First.IsZero() {
		w.call.First = time.Now()
	}
	w.model.mu.Unlock()

	return http.NewResponseController(w.ResponseWriter).Flush()
}

// LoopScript makes the model call for n commands, one after the other.
func LoopScript(n int) string {
	return fmt.Sprintf(`[[script]]{"loop":{"n":%d,"call":{"name":"Bash","arguments":{"command":"true"}}},"closing":"Done."}[[/script]]`, n)
}

// HelloScript makes the model answer at once.
const HelloScript = `[[script]]{"steps":[{"text":"Hello."}]}[[/script]]`
