package identity

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"everloop/auth"
	"everloop/domain"
	"everloop/internal/clients"
)

const (
	timeout    = 5 * time.Second
	maxAnswer  = 256 << 10 // bytes
	maxConns   = 16
	keysFor    = 5 * time.Minute // how long the keys are used without looking for others
	keysAfter  = 5 * time.Second // least time between two looks for an unknown key
	awayFor    = 2 * time.Second // how long a service that did not answer is not asked
	maxKeys    = 100
	dependency = "the identity service"
)

// errUnavailable reports that the service cannot be reached.
var errUnavailable = errors.New("the identity service does not answer")

// Client asks one identity service. It is safe for concurrent use.
type Client struct {
	url    string
	client *http.Client
	now    func() time.Time

	mu     sync.Mutex
	keys   map[string]ed25519.PublicKey
	issuer string
	loaded time.Time // when keys and issuer were read
	asked  time.Time // when they were asked for the last time
	away   time.Time // until when nothing is asked
	load   chan struct{}
}

// NewClient makes a client of the service at a URL; now is its clock, nil: time.Now.
func NewClient(url string, now func() time.Time) *Client {
	if now == nil {
		now = time.Now
	}

	return &Client{
		url: strings.TrimRight(url, "/"), now: now, load: make(chan struct{}, 1),
		client: &http.Client{
			Timeout:       timeout,
			Transport:     &http.Transport{MaxConnsPerHost: maxConns, MaxIdleConnsPerHost: maxConns, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// do makes a request and decodes its answer. A service that did not answer is left alone
// for a moment, so that requests of clients do not queue for it.
func (c *Client) do(ctx context.Context, method, path string, credentials auth.Credentials, body, into any) (status int, err error) {
	c.mu.Lock()
	away := c.now().Before(c.away)
	c.mu.Unlock()

	if away {
		return 0, errUnavailable
	}

	var payload io.Reader

	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, err
		}

		payload = bytes.NewReader(text)
	}

	r, err := http.NewRequestWithContext(ctx, method, c.url+path, payload)
	if err != nil {
		return 0, err
	}

	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}

	if credentials.Bearer != "" {
		r.Header.Set("Authorization", "Bearer "+credentials.Bearer)
	} else if credentials.Cookie != "" {
		for _, https := range []bool{false, true} { // the service reads that of its own scheme
			r.AddCookie(&http.Cookie{Name: clients.CookieName("everloop_session", https), Value: credentials.Cookie})
		}

		r.Header.Set("Origin", c.url) // the agent has checked that of its client
	}

	response, err := c.client.Do(r)
	if err != nil {
		if ctx.Err() == nil {
			c.mu.Lock()
			c.away = c.now().Add(awayFor)
			c.mu.Unlock()
		}

		return 0, errUnavailable
	}
	defer response.Body.Close()

	if response.StatusCode == http.StatusOK && into != nil {
		if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(into); err != nil {
			return 0, fmt.Errorf("%w: its answer is not JSON", errUnavailable)
		}
	}

	if response.StatusCode >= http.StatusInternalServerError || response.StatusCode == http.StatusTooManyRequests {
		return response.StatusCode, errUnavailable
	}

	return response.StatusCode, nil
}

// me asks whom a cookie or a personal token belongs to.
func (c *Client) me(ctx context.Context, credentials auth.Credentials) (domain.Identity, string, error) {
	var me struct {
		ID, Username, Name, Email, Issuer string

		Administrator bool
		Version       int64
		First         bool   `json:"first_administrator"`
		CredentialID  string `json:"credential_id"`
	}

	status, err := c.do(ctx, http.MethodGet, "/api/v1/auth/me", credentials, nil, &me)
	switch {
	case err != nil:
		return domain.Identity{}, "", domain.Unavailablef(dependency, err)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return domain.Identity{}, "", auth.Unauthorized()
	case status != http.StatusOK || me.ID == "" || me.Issuer == "" || me.CredentialID == "":
		return domain.Identity{}, "", domain.Unavailablef(dependency, fmt.Errorf("status %d", status))
	}

	return domain.Identity{
		Issuer: me.Issuer, Subject: me.ID, Username: me.Username, Name: me.Name, Email: me.Email,
		Administrator: me.Administrator, First: me.First, Version: me.Version,
	}, me.CredentialID, nil
}

// aliveIDs is how many sessions and tokens one question names.
const aliveIDs = 200

// alive returns those of the sessions and personal tokens that hold; errUnavailable when there is no
// answer.
func (c *Client) alive(ctx context.Context, ids ...string) (held []string, err error) {
	for part := range slices.Chunk(ids, aliveIDs) {
		var out struct{ Alive []string }

		status, err := c.do(ctx, http.MethodPost, "/api/v1/auth/alive", auth.Credentials{}, map[string][]string{"ids": part}, &out)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%w: status %d", errUnavailable, status)
		}

		if err != nil {
			return nil, err
		}

		held = append(held, out.Alive...)
	}

	return held, nil
}

// accountIDs is how many accounts one question names: each may have two entries of 200.
const accountIDs = 100

// openAccounts asks which entries of accounts hold; errUnavailable when there is no answer.
func (c *Client) openAccounts(ctx context.Context, entries []string) (map[string]bool, error) {
	var out struct{ Accounts []string }

	status, err := c.do(ctx, http.MethodPost, "/api/v1/auth/alive", auth.Credentials{}, map[string][]string{"accounts": entries}, &out)
	if err == nil && (status != http.StatusOK || out.Accounts == nil) {
		err = fmt.Errorf("%w: status %d, or a service that does not know the question", errUnavailable, status)
	}

	open := make(map[string]bool, len(out.Accounts))
	for _, entry := range out.Accounts {
		open[entry] = true
	}

	return open, err
}

// currentIssuer returns the issuer that the service names.
func (c *Client) currentIssuer(ctx context.Context) (string, error) {
	c.mu.Lock()
	issuer, fresh := c.issuer, c.now().Before(c.loaded.Add(keysFor))
	c.mu.Unlock()

	if issuer != "" && fresh {
		return issuer, nil
	}

	if err := c.readKeys(ctx); err != nil {
		return "", err
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	return c.issuer, nil
}

// key gives the key of an id with the issuer that the service names. Keys that were read
// once continue counting while the service is away.
func (c *Client) key(ctx context.Context, id string) (ed25519.PublicKey, string, error) {
	if key, issuer, done := c.known(id); done {
		return key, issuer, nil
	}

	select { // one look at a time, which all wait for
	case c.load <- struct{}{}:
		defer func() { <-c.load }()
	case <-ctx.Done():
		return nil, "", domain.Unavailablef(dependency, ctx.Err())
	}

	if key, issuer, done := c.known(id); done {
		return key, issuer, nil
	}

	c.mu.Lock()

	soon := c.now().Before(c.asked.Add(keysAfter)) && len(c.keys) > 0
	if !soon {
		c.asked = c.now()
	}
	c.mu.Unlock()

	var err error
	if !soon {
		err = c.readKeys(ctx)
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	if key, found := c.keys[id]; found {
		return key, c.issuer, nil
	}

	if err != nil {
		return nil, "", domain.Unavailablef(dependency, err)
	}

	return nil, "", auth.Unauthorized()
}

// known returns what is cached, and fresh enough.
func (c *Client) known(id string) (ed25519.PublicKey, string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()

	key, found := c.keys[id]

	return key, c.issuer, found && c.now().Before(c.loaded.Add(keysFor))
}

// readKeys reads issuer and keys of the service.
func (c *Client) readKeys(ctx context.Context) error {
	var (
		about struct{ Issuer string }
		set   jose.JSONWebKeySet
	)
	for path, into := range map[string]any{"/.well-known/openid-configuration": &about, "/.well-known/jwks.json": &set} {
		status, err := c.do(ctx, http.MethodGet, path, auth.Credentials{}, nil, into)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%w: status %d", errUnavailable, status)
		}

		if err != nil {
			return err
		}
	}

	keys := map[string]ed25519.PublicKey{}
	for _, one := range set.Keys {
		if public, ok := one.Key.(ed25519.PublicKey); ok && one.Algorithm == string(jose.EdDSA) && len(keys) < maxKeys {
			keys[one.KeyID] = public
		}
	}

	if len(keys) == 0 || about.Issuer == "" {
		return fmt.Errorf("%w: it shows no keys", errUnavailable)
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	c.keys, c.issuer, c.loaded = keys, about.Issuer, c.now()

	return nil
}

// TokenStates says of persons of the service whether they can sign in, for a caller who
// administers it. Persons whom the service does not know are left out.
func (c *Client) TokenStates(ctx context.Context, by auth.Credentials, people []domain.ExternalUser) (map[string]domain.TokenState, error) {
	subs := make([]string, len(people))
	for i, p := range people {
		subs[i] = p.Sub
	}

	type account struct {
		Sub, Email, Name string
		OK               bool
	}

	var out struct{ Items []account }

	status, err := c.do(ctx, http.MethodPost, "/api/v1/users/token-state", by, map[string][]string{"subs": subs}, &out)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d", status)
	}

	if err != nil {
		return nil, domain.Unavailablef(dependency, err)
	}

	known := map[string]account{}
	for _, one := range out.Items {
		known[one.Sub] = one
	}

	found := map[string]domain.TokenState{}

	for _, p := range people {
		has, ok := known[p.Sub]
		if !ok {
			continue
		}

		state := domain.TokenState{
			Sub: p.Sub, Email: p.Email, OK: has.OK, Message: "the account has a session or a personal token",
			Changed: p.Name != "" && p.Name != has.Name || p.Email != "" && p.Email != has.Email,
		}
		if !has.OK {
			state.Message = "the account has no session and no personal token"
		}

		found[p.Sub] = state
	}

	return found, nil
}
