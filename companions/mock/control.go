package mock

import (
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

const (
	keptRequests = 200
	keptBody     = 1 << 20  // bytes of one body; a longer one is not kept
	keptTotal    = 64 << 20 // bytes of all bodies
)

// Request is one received chat-completion request in the log. No header is
// kept, so that no credential is.
type Request struct {
	ID      int64           `json:"id"` // grows by one with each request
	At      time.Time       `json:"at"`
	Model   string          `json:"model"`
	Stream  bool            `json:"stream"`
	Key     string          `json:"key"`     // equal for equal model and messages
	Outcome string          `json:"outcome"` // "in progress", "completed", "status 503", "cut", …
	Bytes   int             `json:"bytes"`
	Body    json.RawMessage `json:"body,omitempty"` // absent when it was too long or not JSON
}

// requestLog keeps the last requests for tests that assert what reached the
// model.
type requestLog struct {
	on bool

	mu      sync.Mutex
	next    int64
	total   int
	entries []*Request
}

func newRequestLog(on bool) *requestLog { return &requestLog{on: on, next: 1} }

func (l *requestLog) begin(body []byte) *Request {
	e := &Request{At: time.Now().UTC(), Outcome: "in progress", Bytes: len(body)}
	if !l.on {
		return e
	}

	if len(body) <= keptBody {
		e.Body = body // checked when it is shown
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	e.ID = l.next
	l.next++
	l.entries = append(l.entries, e)

	l.total += len(e.Body)
	for len(l.entries) > keptRequests || l.total > keptTotal {
		l.total -= len(l.entries[0].Body)
		l.entries[0] = nil
		l.entries = l.entries[1:]
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

func (l *requestLog) end(e *Request, outcome string) {
	l.mu.Lock()
	defer l.mu.Unlock()

	e.Outcome = outcome
}

// last gives copies of the newest requests, oldest first.
func (l *requestLog) last(limit int) []Request {
	l.mu.Lock()
	defer l.mu.Unlock()

	from := max(len(l.entries)-limit, 0)

	out := make([]Request, 0, len(l.entries)-from)
	for _, e := range l.entries[from:] {
		out = append(out, *e)
	}

	return out
}

func (l *requestLog) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.entries, l.total = nil, 0
}

// local accepts requests of this machine only, unless the service is configured otherwise.
func (s *Service) local(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)

		addr, err := netip.ParseAddr(host)
		if !s.cfg.OpenControl && (err != nil || !addr.Unmap().IsLoopback()) {
			writeError(w, &apiError{
				Status: http.StatusForbidden, Type: "invalid_request_error", Code: "local_only",
				Message: "the control interface answers to this machine only",
			})

			return
		}

		next(w, r)
	}
}

func (s *Service) listRequests(w http.ResponseWriter, r *http.Request) {
	if !s.requests.on {
		writeError(w, notFound("request_log_off", "requests are not kept: start the service with MOCK_REQUEST_LOG=true"))
		return
	}

	limit := keptRequests

	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			writeError(w, badRequest("limit must be a number of at least 1"))
			return
		}

		limit = n
	}

	items := s.requests.last(limit)
	for i := range items {
		if !json.Valid(items[i].Body) {
			items[i].Body = nil
		}
	}

	writeJSON(w, http.StatusOK, map[string]any{"items": items, "total": len(items)})
}

func (s *Service) clearRequests(w http.ResponseWriter, _ *http.Request) {
	s.requests.clear()
	w.WriteHeader(http.StatusNoContent)
}

func (s *Service) release(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]int{"released": s.held.release()})
}
