package main

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"everloop/companions/mock"
)

// model is the scripted model in this process. It answers at once and notes when
// each request came, got its first piece and was done, so that its own time can
// be taken off.
type model struct {
	url    string
	server *http.Server
	mu     sync.Mutex
	calls  []*modelCall
}

// modelCall is one request that the model answered.
type modelCall struct {
	arrived, first, last time.Time
}

// thinking is the model's own time until its first piece.
func (c *modelCall) thinking() time.Duration { return c.first.Sub(c.arrived) }

func startModel() (*model, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("scripted model: %w", err)
	}

	m := &model{url: "http://" + listener.Addr().String()}

	m.server = &http.Server{Handler: m.timed(mock.New(mock.Config{}).Handler()), ReadHeaderTimeout: time.Minute}
	go func() { _ = m.server.Serve(listener) }() // ends with close

	return m, nil
}

func (m *model) close() { _ = m.server.Close() }

func (m *model) timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/chat/completions") {
			next.ServeHTTP(w, r)
			return
		}

		call := &modelCall{arrived: time.Now()}

		m.mu.Lock()
		m.calls = append(m.calls, call)
		m.mu.Unlock()
		next.ServeHTTP(&timedWriter{ResponseWriter: w, model: m, call: call}, r)
		m.mu.Lock()
		call.last = time.Now()
		m.mu.Unlock()
	})
}

// take gives the calls since the last take, in the order of their arrival.
func (m *model) take() []modelCall {
	m.mu.Lock()
	defer m.mu.Unlock()

	calls := make([]modelCall, len(m.calls))
	for i, c := range m.calls {
		calls[i] = *c
	}

	m.calls = nil

	return calls
}

// one gives the single call since the last take.
func (m *model) one() (modelCall, error) {
	calls := m.take()
	if len(calls) != 1 {
		return modelCall{}, fmt.Errorf("the model was called %d times, not once", len(calls))
	}

	return calls[0], nil
}

// timedWriter notes the first flush, with which the mock sends its first piece.
type timedWriter struct {
	http.ResponseWriter
	model *model
	call  *modelCall
}

// FlushError is what http.ResponseController calls.
func (w *timedWriter) FlushError() error {
	w.model.mu.Lock()
	if w.call.first.IsZero() {
		w.call.first = time.Now()
	}
	w.model.mu.Unlock()

	return http.NewResponseController(w.ResponseWriter).Flush()
}
