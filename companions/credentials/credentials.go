// Package credentials checks bearer tokens with the agent, for services that accept the same
// credentials (GET /api/auth/me). It does not depend on what the callers request.
package credentials

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"everloop/companions/edge"
	"everloop/internal/clients"
)

// Bounds of the requests to the agent and of their cached results.
const (
	rememberFor   = 5 * time.Second // also the time that a revoked key still works
	remembered    = 1000            // tokens
	askWithin     = 5 * time.Second
	maxConcurrent = 16
	maxToken      = 4096
	maxAnswer     = 1 << 20
	guesses       = 30 // different wrong tokens of one client in a minute
)

// SkillsWrite is the scope that a token with scopes needs to publish.
const SkillsWrite = "skills:write"

// Caller is the owner of a token.
type Caller struct {
	ID            string   `json:"id"`
	Username      string   `json:"username"`
	Administrator bool     `json:"administrator"`
	Scopes        []string `json:"scopes"` // nil: all that the user may do
}

// Has reports whether the token has a scope.
func (c Caller) Has(scope string) bool {
	return c.Scopes == nil || slices.Contains(c.Scopes, scope)
}

// Administers reports whether the token may be used to administer.
func (c Caller) Administers() bool { return c.Administrator && c.Has("admin") }

// Machine is the id of the caller whose token is the configured key.
const Machine = "machine"

// Checker checks tokens. It is safe for concurrent use.
type Checker struct {
	agent string
	key   [sha256.Size]byte
	keyed bool
	http  *http.Client
	slots chan struct{}
	now   func() time.Time

	guesses *clients.Guesses

	mu    sync.Mutex
	known map[[sha256.Size]byte]answer
}

type answer struct {
	caller Caller
	until  time.Time
}

// New returns a new checker that calls the agent at a URL. A non-empty key is also a valid
// token, of a machine with the administrator right.
func New(agentURL, key string) *Checker {
	c := &Checker{
		agent: strings.TrimRight(agentURL, "/"),
		http: &http.Client{
			Timeout: askWithin,
			// The token must not be sent to another host.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		slots: make(
			chan struct{},
			maxConcurrent,
		),
		now:     time.Now,
		guesses: clients.NewGuesses(guesses, nil),
		known:   map[[sha256.Size]byte]answer{},
	}
	if key != "" {
		c.key, c.keyed = sha256.Sum256([]byte(key)), true
	}

	return c
}

// Check returns the owner of a token sent from a client's address. An error is an
// *edge.Problem: 401 for an invalid token, 429 when the client has sent too many different
// invalid ones, 503 when the agent is unavailable. The agent sees one address for all clients
// of a service, so wrong tokens are counted here, before the agent is called.
func (c *Checker) Check(ctx context.Context, client netip.Addr, token string) (Caller, error) {
	if token == "" || len(token) > maxToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return Caller{}, unauthorized()
	}

	sum := sha256.Sum256([]byte(token))
	if c.keyed && subtle.ConstantTimeCompare(sum[:], c.key[:]) == 1 {
		return Caller{ID: Machine, Username: Machine, Administrator: true}, nil
	}

	if known, ok := c.recall(sum); ok {
		return known, nil
	}

	network := clients.Network(client).String()
	if wait := c.guesses.Wait(network, sum); wait > 0 {
		p := edge.Refuse(
			http.StatusTooManyRequests,
			"too_many_guesses",
			"too many wrong tokens came from this address, retry in %d s",
			wait,
		)
		p.RetryAfter = wait

		return Caller{}, p
	}

	caller, err := c.ask(ctx, client, token)
	if err == nil {
		c.guesses.Note(network, sum, true)
		c.remember(sum, caller)
	} else if p, ok := errors.AsType[*edge.Problem](err); ok && p.Status == http.StatusUnauthorized {
		c.guesses.Note(network, sum, false)
	}

	return caller, err
}

func (c *Checker) recall(sum [sha256.Size]byte) (Caller, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()

	known, ok := c.known[sum]

	return known.caller, ok && c.now().Before(known.until)
}

func (c *Checker) remember(sum [sha256.Size]byte, caller Caller) {
	c.mu.Lock()
	defer c.mu.Unlock()

	now := c.now()
	if len(c.known) >= remembered {
		for key, old := range c.known {
			if !now.Before(old.until) {
				delete(c.known, key)
			}
		}
	}

	if len(c.known) < remembered {
		c.known[sum] = answer{caller, now.Add(rememberFor)}
	}
}

func (c *Checker) ask(ctx context.Context, client netip.Addr, token string) (Caller, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()

	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return Caller{}, away()
	}

	if c.agent == "" {
		return Caller{}, away()
	}

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.agent+"/api/auth/me", nil)
	if err != nil {
		return Caller{}, fmt.Errorf("ask the agent: %w", err)
	}

	request.Header.Set("Authorization", "Bearer "+token)

	if client.IsValid() { // an agent that trusts this service counts by this address
		request.Header.Set("X-Forwarded-For", client.String())
	}

	response, err := c.http.Do(request)
	if err != nil {
		return Caller{}, away()
	}
	defer response.Body.Close()

	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return Caller{}, unauthorized()
	case http.StatusForbidden:
		return Caller{}, edge.Refuse(http.StatusForbidden, "forbidden", "the agent refuses this token")
	case http.StatusTooManyRequests:
		return Caller{}, edge.Refuse(http.StatusTooManyRequests, "rate_limited", "too many requests with wrong or busy tokens: wait")
	default:
		return Caller{}, away()
	}

	var caller Caller

	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil || json.Unmarshal(data, &caller) != nil || caller.ID == "" {
		return Caller{}, away()
	}

	return caller, nil
}

func unauthorized() error {
	return edge.Refuse(http.StatusUnauthorized, "unauthorized", "no credentials, or wrong ones: send an API key of the agent")
}

func away() error {
	return edge.Refuse(http.StatusServiceUnavailable, "agent_unavailable",
		"the agent, which checks credentials, does not answer: try again")
}

// Bearer returns the token of a request; empty when it has none.
func Bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}

	return strings.TrimSpace(token)
}

// Require checks that a caller has a scope.
func Require(caller Caller, scope string) error {
	if !caller.Has(scope) {
		return edge.Refuse(http.StatusForbidden, "scope_missing", "the key lacks the scope %s", scope)
	}

	return nil
}

// errShort is the fault of a key that is short enough to guess.
var errShort = errors.New("must have 16 to 512 characters without spaces")

// CheckKey returns an error for an invalid configured key; an empty key means none.
func CheckKey(key string) error {
	if key != "" && (len(key) < 16 || len(key) > 512 || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' })) {
		return errShort
	}

	return nil
}
