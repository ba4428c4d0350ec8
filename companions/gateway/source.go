package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"everloop/internal/limit"

	"golang.org/x/sync/singleflight"

	"everloop/companions/gateway/localserver"
)

const (
	listFresh   = 5 * time.Second // a model list is used for so long without a further look
	listTimeout = 3 * time.Second
	maxList     = 8 << 20 // bytes of a model list
	latencies   = 64      // recorded latencies of answers
)

// source is a server that runs models, with its current state.
type source struct {
	Source
	base    string              // with /v1
	local   *localserver.Server // that the gateway runs; nil: it runs elsewhere
	client  *http.Client
	queue   *limit.Queue
	breaker breaker
	flight  singleflight.Group
	warmed  atomic.Bool

	mu       sync.Mutex
	listed   []json.RawMessage // entries of its model list as last read
	listedAt time.Time         // the last attempt, failed or not
	fault    string            // of the last contact; empty: none
	recent   []time.Duration   // to the first byte, of the last answers
	next     int               // place in recent
}

func newSource(set Source, demoURL string) *source {
	base := set.BaseURL
	if base == "" {
		base = demoURL
	}

	base = strings.TrimSuffix(strings.TrimRight(base, "/"), "/v1") + "/v1"
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}

	if set.runs() {
		set.Models = set.named()
	}

	return &source{
		Source: set, base: base,
		queue: limit.NewQueue(limit.QueueConfig{Slots: set.concurrency(), Waiting: cmp.Or(set.MaxQueue, defaultQueue)}),
		client: &http.Client{
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
				TLSHandshakeTimeout: 10 * time.Second, MaxIdleConns: 256, MaxIdleConnsPerHost: 256, IdleConnTimeout: 90 * time.Second,
				DisableCompression: true, // compression delays the chunks of a stream
			},
			// Redirects are not followed: another address must receive neither the prompt nor
			// the key.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// request creates a request to the source. Its header contains nothing of the client's.
func (s *source) request(ctx context.Context, method, path string, body io.Reader, contentType string) (*http.Request, error) {
	base, err := s.address()
	if err != nil {
		return nil, err
	}

	r, err := http.NewRequestWithContext(ctx, method, base+path, body)
	if err != nil {
		return nil, err
	}

	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}

	if s.APIKey != "" {
		r.Header.Set("Authorization", "Bearer "+s.APIKey)
	}

	return r, nil
}

// models returns the entries of the source's list, refreshed when they are older than maxAge.
// After a failure it returns the last successful ones.
func (s *source) models(ctx context.Context, maxAge time.Duration) []json.RawMessage {
	s.mu.Lock()
	listed, age, never := s.listed, time.Since(s.listedAt), s.listedAt.IsZero()
	s.mu.Unlock()

	if !never && age < maxAge || s.notReady() != nil {
		return listed
	}

	result := s.flight.DoChan("models", func() (any, error) {
		look, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTimeout)
		defer cancel()

		fresh, err := s.list(look)
		s.mu.Lock()
		defer s.mu.Unlock()

		s.listedAt, s.fault = time.Now(), ""
		if err != nil {
			s.fault = s.clean(cause(err))
		} else {
			s.listed = fresh
		}

		return s.listed, nil
	})
	select {
	case <-ctx.Done():
		return listed
	case r := <-result:
		return r.Val.([]json.RawMessage)
	}
}

func (s *source) list(ctx context.Context) ([]json.RawMessage, error) {
	r, err := s.request(ctx, http.MethodGet, "/models", nil, "")
	if err != nil {
		return nil, err
	}

	res, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()

	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("its model list has status %d", res.StatusCode)
	}

	var list struct{ Data []json.RawMessage }
	if err := json.NewDecoder(io.LimitReader(res.Body, maxList)).Decode(&list); err != nil {
		return nil, errors.New("its model list cannot be read")
	}

	return list.Data, nil
}

// has reports whether the source runs a model, and its name there.
func (s *source) has(ctx context.Context, id string, maxAge time.Duration) (upstream string, has bool) {
	if len(s.Models) > 0 {
		i := slices.IndexFunc(s.Models, func(m Model) bool { return m.ID == id })
		if i < 0 {
			return "", false
		}

		if s.Models[i].UpstreamID != "" {
			return s.Models[i].UpstreamID, true
		}

		return id, true
	}

	for _, entry := range s.models(ctx, maxAge) {
		if entryID(entry) == id {
			return id, true
		}
	}

	return "", false
}

// healthy reports whether the last contact succeeded and requests are sent.
func (s *source) healthy(now time.Time) (is bool, fault string) {
	s.mu.Lock()
	fault = s.fault
	s.mu.Unlock()

	if s.local != nil {
		if status := s.local.Status(); status.State != localserver.Ready {
			return false, s.clean(status.Words())
		}
	}

	return fault == "" && !s.breaker.open(now), fault
}

// answered records an answer and the time to its first byte.
func (s *source) answered(took time.Duration) {
	s.breaker.succeeded()
	s.mu.Lock()
	defer s.mu.Unlock()

	s.fault = ""
	if len(s.recent) < latencies {
		s.recent = append(s.recent, took)
		return
	}

	s.recent[s.next] = took
	s.next = (s.next + 1) % latencies
}

// unreachable records a failed contact.
func (s *source) unreachable(err error, as probe) {
	s.breaker.failedAt(time.Now(), as)
	s.mu.Lock()
	defer s.mu.Unlock()

	s.fault = s.clean(cause(err))
}

// p50 returns the median of the last latencies; 0: there was none.
func (s *source) p50() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()

	if len(s.recent) == 0 {
		return 0
	}

	sorted := slices.Sorted(slices.Values(s.recent))

	return sorted[len(sorted)/2]
}

// clean shortens a text and removes the source's key.
func (s *source) clean(text string) string {
	if s.APIKey != "" {
		text = strings.ReplaceAll(text, s.APIKey, "***")
	}

	const most = 300
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}

	return text
}

// cause returns the error of a request without the address, which clients must not see.
func cause(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}

	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e.Op + ": " + e.Err.Error()
	}

	return err.Error()
}
