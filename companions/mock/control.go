package mock

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"everloop/companions/edge"
)

const (
	maxLogged      = 200
	maxLoggedBody  = 1 << 20  // bytes of one body; longer bodies are not logged
	maxLoggedTotal = 64 << 20 // bytes of all bodies
)

// Request is a received chat-completion request in the log. It contains no headers and thus
// no credentials.
type Request struct {
	ID      int64           `json:"id"` // increases by one with each request
	At      time.Time       `json:"at"`
	Model   string          `json:"model"`
	Stream  bool            `json:"stream"`
	Key     string          `json:"key"`     // equal for equal model and messages
	Outcome string          `json:"outcome"` // "in progress", "completed", "status 503", "cut", …
	Bytes   int             `json:"bytes"`
	Body    json.RawMessage `json:"body,omitempty"` // absent if too long or not JSON
}

// requestLog stores the last requests for tests that assert what reached the model.
type requestLog struct {
	on bool

	mu      sync.Mutex
	next    int64
	total   int // bytes of all bodies
	entries []*Request
}

func newRequestLog(on bool) *requestLog { return &requestLog{on: on, next: 1} }

func (l *requestLog) start(body []byte) *Request {
	e := &Request{At: time.Now().UTC(), Outcome: "in progress", Bytes: len(body)}
	if !l.on {
		return e
	}

	if len(body) <= maxLoggedBody && json.Valid(body) {
		e.Body = body
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	e.ID = l.next
	l.next++
	l.entries = append(l.entries, e)

	l.total += len(e.Body)
	for len(l.entries) > maxLogged || l.total > maxLoggedTotal {
		l.total -= len(l.entries[0].Body)
		l.entries = slices.Delete(l.entries, 0, 1)
	}

	return e
}

func (l *requestLog) describe(e *Request, req *chatRequest) {
	if !l.on {
		return
	}
	key := req.key()
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Model, e.Stream, e.Key = req.Model, req.Stream, key
}

func (l *requestLog) finish(e *Request, outcome string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Outcome = outcome
}

// last returns copies of the newest requests, oldest first.
func (l *requestLog) last(limit int) []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []Request{}
	for _, e := range l.entries[max(len(l.entries)-limit, 0):] {
		out = append(out, *e)
	}
	return out
}

func (l *requestLog) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries, l.total = nil, 0
}

// local rejects requests of other machines unless OpenControl is set.
func (s *Service) local(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.cfg.OpenControl && !edge.Client(r).IsLoopback() {
			writeError(w, invalid(http.StatusForbidden, "local_only", "/control/ is open to this machine only"))
			return
		}
		next(w, r)
	}
}

func (s *Service) listRequests(w http.ResponseWriter, r *http.Request) {
	if !s.requests.on {
		writeError(w, invalid(http.StatusNotFound, "request_log_off",
			"the request log is off: start the service with --mock-request-log"))
		return
	}

	limit, err := edge.Number(r, "limit", maxLogged, 1, math.MaxInt)
	if err != nil {
		writeError(w, badRequest("limit must be at least 1"))
		return
	}

	items := s.requests.last(limit)
	edge.WriteJSON(w, http.StatusOK, map[string]any{"items": items, "total": len(items)})
}

func (s *Service) clearRequests(w http.ResponseWriter, _ *http.Request) {
	s.requests.clear()
	w.WriteHeader(http.StatusNoContent)
}

func (s *Service) release(w http.ResponseWriter, _ *http.Request) {
	edge.WriteJSON(w, http.StatusOK, map[string]int{"released": s.held.release()})
}
