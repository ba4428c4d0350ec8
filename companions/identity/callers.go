package identity

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/companions/edge"
	"everloop/companions/identity/accounts"
	"everloop/companions/identity/tokens"
	"everloop/internal/clients"
)

// caller is the author of a request: a person of this service, or the owner of an API key of
// the agent.
type caller struct {
	user          user   // the zero value for a key whose user has no account here
	sessionID     string // by cookie or access token
	clientID      string // of the OpenID client that the access token was made for
	restricted    bool   // that client is not a front end of the product: it cannot manage the account
	tokenID       string // by personal token
	agentUser     string // by API key: the agent's id of its user
	administrator bool
	unproven      bool // an administrator must use a second factor, and this credential was issued without one
}

// actor returns the actor for the audit log.
func (c caller) actor() string {
	if c.user.ID != "" {
		return c.user.ID
	}

	return "agent:" + c.agentUser
}

// credential returns the id of the caller's session or token, for [Service.alive].
func (c caller) credential() string { return strings.Trim(c.sessionID+c.tokenID, " ") }

const (
	cookiePrefix  = "es_"
	refreshPrefix = "er_"
	tokenPrefix   = "ep_" //nolint:gosec // a prefix, no secret
)

// identify authenticates a request. A request with a Bearer token is never authenticated by its
// cookie, and a change by cookie needs an Origin of this service.
func (s *Service) identify(r *http.Request) (caller, error) {
	scheme, bearer, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "bearer") {
		return s.byBearer(r.Context(), edge.Client(r), strings.TrimSpace(bearer))
	}

	cookie, err := s.cookie(r, sessionCookie)
	if err != nil || len(cookie.Value) > accounts.MaxCredential {
		return caller{}, unauthorized()
	}

	if err := s.checkOrigin(r); err != nil {
		return caller{}, err
	}

	return s.bySession(r.Context(), `s.cookie_hash = $1`, accounts.Hash(cookie.Value))
}

func (s *Service) byBearer(ctx context.Context, client netip.Addr, bearer string) (caller, error) {
	switch {
	case bearer == "" || len(bearer) > accounts.MaxCredential:
		return caller{}, unauthorized()
	case strings.HasPrefix(bearer, tokenPrefix):
		return s.byPersonalToken(ctx, bearer)
	case strings.Count(bearer, ".") == 2 && strings.HasPrefix(bearer, "ey"):
		said, err := s.keys.Verify(ctx, bearer)
		if errors.Is(err, tokens.ErrInvalid) {
			return caller{}, unauthorized()
		}

		if err != nil {
			return caller{}, err
		}

		c, err := s.bySession(ctx, `s.id = $1`, said.SessionID)
		c.clientID, c.restricted = said.ClientID, said.Rights != nil
		c.administrator = c.administrator && (said.Rights == nil || slices.Contains(said.Rights, "admin"))

		return c, err
	default:
		return s.agent.caller(ctx, s, client, bearer)
	}
}

func (s *Service) bySession(ctx context.Context, condition string, value any) (caller, error) {
	u, id, err := accounts.BySession(ctx, s.db, condition, value)
	if errors.Is(err, pgx.ErrNoRows) {
		err = unauthorized()
	}

	if err != nil {
		return caller{}, err
	}

	c := caller{user: u, sessionID: id, administrator: u.Administrator}
	c.unproven, err = s.lacks(ctx, u, accounts.WithSecondFactor, id)

	return c, err
}

// lacks reports whether a user is an administrator who must have a second factor, and does not
// fulfil a condition about user u and session s.
func (s *Service) lacks(ctx context.Context, u user, condition, sessionID string) (lacks bool, err error) {
	if !s.cfg.AdminSecondFactor || !u.Administrator {
		return false, nil
	}

	err = s.db.QueryRow(ctx, `
		SELECT NOT `+condition+` FROM identity.users u LEFT JOIN identity.sessions s ON s.id = $2 WHERE u.id = $1`,
		u.ID, sessionID).Scan(&lacks)

	return lacks, err
}

func (s *Service) byPersonalToken(ctx context.Context, token string) (caller, error) {
	var id string

	u, err := s.oneUser(ctx, `, t.id FROM identity.personal_tokens t JOIN identity.users u ON u.id = t.user_id
		WHERE t.hash = $1 AND t.revoked_at IS NULL AND t.expires_at > now() AND u.deleted_at IS NULL AND NOT u.disabled`,
		&id, accounts.Hash(token))
	if err != nil {
		return caller{}, err
	}

	c := caller{user: u, tokenID: id, administrator: u.Administrator}
	c.unproven, err = s.lacks(ctx, u, accounts.HasSecondFactor, "")

	return c, err
}

// oneUser reads a user and the id of their credential.
func (s *Service) oneUser(ctx context.Context, from string, id *string, args ...any) (user, error) {
	var u user

	err := s.db.QueryRow(ctx, `SELECT `+accounts.Columns+from, args...).Scan(
		append(u.Columns(), id)...)
	if errors.Is(err, pgx.ErrNoRows) {
		return user{}, unauthorized()
	}

	return u, err
}

// person is identify for operations that need an account here and its own credential.
func (s *Service) person(r *http.Request) (caller, error) {
	c, err := s.signedIn(r)
	if err == nil && c.restricted {
		err = clientRefused()
	}

	return c, err
}

func clientRefused() *Fault {
	return fault(http.StatusForbidden, "client_refused", "an OpenID client does not manage the account: sign in to the identity service")
}

// signedIn is person, also for clients of the OpenID provider.
func (s *Service) signedIn(r *http.Request) (caller, error) {
	c, err := s.owner(r)
	if err == nil && c.unproven {
		err = s.secondFactorRequired()
	}

	return c, err
}

// owner is signedIn, also for administrators without their required second factor.
func (s *Service) owner(r *http.Request) (caller, error) {
	c, err := s.identify(r)
	if err == nil && c.user.ID == "" {
		err = fault(http.StatusForbidden, "account_required",
			"this API key belongs to no account of the identity service: sign in with a password")
	}

	return c, err
}

// settingUp is person, also for administrators without their required second factor.
func (s *Service) settingUp(r *http.Request) (caller, error) {
	c, err := s.owner(r)
	if err == nil && c.restricted {
		err = clientRefused()
	}

	return c, err
}

func (s *Service) secondFactorRequired() *Fault {
	return fault(http.StatusForbidden, "second_factor_required",
		"administrators need a second factor: sign in at %s/ in a browser and set up an authenticator app or a passkey",
		strings.TrimRight(s.cfg.Issuer, "/"))
}

// checkFirstFactor rejects a caller that has authenticated without the second factor that its
// user has: a password alone must not suffice to add another.
func (s *Service) checkFirstFactor(ctx context.Context, c caller) error {
	if !c.unproven {
		return nil
	}

	lacks, err := s.lacks(ctx, c.user, accounts.HasSecondFactor, "")
	if err == nil && !lacks {
		err = fault(http.StatusForbidden, "second_factor_required", "sign out, and sign in with your passkey or authenticator app")
	}

	return err
}

// prove records that a session's person has used a second factor after the sign-in.
func prove(ctx context.Context, tx pgx.Tx, sessionID string) error {
	_, err := tx.Exec(ctx, `UPDATE identity.sessions SET amr = trim(amr || ' mfa') WHERE id = $1 AND amr !~ '\mmfa\M'`, sessionID)

	return err
}

// administrator is identify for administrators only.
func (s *Service) administrator(r *http.Request) (caller, error) {
	c, err := s.identify(r)
	if err == nil && c.unproven {
		err = s.secondFactorRequired()
	}

	if err == nil && !c.administrator {
		err = fault(http.StatusForbidden, "administrator_required", "only administrators may do this")
	}

	return c, err
}

// checkOrigin rejects a change that a page of another site requests with its visitor's cookies.
func (s *Service) checkOrigin(r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}

	origin := r.Header.Get("Origin")
	if slices.Contains(s.cfg.Origins, origin) {
		return nil
	}

	if u, err := url.Parse(origin); err == nil && u.Host != "" && u.Host == r.Host {
		return nil
	}

	return fault(http.StatusForbidden, "origin_refused", "a change by cookie needs the Origin of this service")
}

// agentKeys looks up the owner of an API key with the agent.
type agentKeys struct {
	url    string
	client *http.Client
	// guesses counts wrong keys before the agent is called, which sees one address for all
	// clients.
	guesses *clients.Guesses

	mu    sync.Mutex
	known map[[sha256.Size]byte]knownKey
}

type knownKey struct {
	caller caller
	until  time.Time
}

const (
	agentTimeout = 5 * time.Second
	keyGuesses   = 30              // different wrong keys of one client in a minute
	keyFor       = 5 * time.Second // how long a response of the agent is cached
	maxKeys      = 1000
)

func newAgentKeys(url string) *agentKeys {
	return &agentKeys{
		url: strings.TrimRight(url, "/"), known: map[[sha256.Size]byte]knownKey{}, guesses: clients.NewGuesses(keyGuesses, nil),
		client: &http.Client{
			Timeout: agentTimeout, Transport: &http.Transport{MaxConnsPerHost: 8},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func (a *agentKeys) caller(ctx context.Context, s *Service, from netip.Addr, key string) (caller, error) {
	if a.url == "" {
		return caller{}, unauthorized()
	}

	hash := sha256.Sum256([]byte(key))

	a.mu.Lock()
	kept, found := a.known[hash]
	a.mu.Unlock()

	if found && time.Now().Before(kept.until) {
		return kept.caller, nil
	}

	network := clients.Network(from).String()
	if wait := a.guesses.Wait(network, hash); wait > 0 {
		refused := fault(http.StatusTooManyRequests, "too_many_guesses", "too many wrong keys came from this address, retry later")
		refused.RetryAfter = wait

		return caller{}, refused
	}

	c, err := a.ask(ctx, s, from, key)
	if f, ok := errors.AsType[*Fault](err); err == nil || ok && f.Status == http.StatusUnauthorized {
		a.guesses.Note(network, hash, err == nil)
	}

	if err != nil {
		return caller{}, err
	}

	a.mu.Lock()
	defer a.mu.Unlock()

	if len(a.known) >= maxKeys {
		clear(a.known)
	}

	a.known[hash] = knownKey{c, time.Now().Add(keyFor)}

	return c, nil
}

// longestWait bounds the Retry-After of the agent, in seconds.
const longestWait = 3600

// agentLimits returns the fault when the agent limits a key or a client's address, with the
// agent's Retry-After.
func agentLimits(retryAfter string) *Fault {
	refused := fault(http.StatusTooManyRequests, "rate_limited",
		"the agent gets too many requests with this key or from this address, retry later")
	if wait, err := strconv.Atoi(retryAfter); err == nil && wait > 0 {
		refused.RetryAfter = min(wait, longestWait)
	}

	return refused
}

func (a *agentKeys) ask(ctx context.Context, s *Service, from netip.Addr, key string) (caller, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+"/api/auth/me", nil)
	if err != nil {
		return caller{}, err
	}

	r.Header.Set("Authorization", "Bearer "+key)

	if from.IsValid() { // an agent that trusts this service counts by this address
		r.Header.Set("X-Forwarded-For", from.String())
	}

	response, err := a.client.Do(r)
	if err != nil {
		return caller{}, busy("the agent, which knows API keys,")
	}
	defer response.Body.Close()

	switch response.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return caller{}, unauthorized()
	case http.StatusTooManyRequests:
		return caller{}, agentLimits(response.Header.Get("Retry-After"))
	}

	var me struct {
		ID, Issuer, Subject string
		Administrator       bool
		Scopes              []string
	}

	err = json.NewDecoder(io.LimitReader(response.Body, maxBody)).Decode(&me)
	if response.StatusCode != http.StatusOK || err != nil || me.ID == "" {
		return caller{}, busy("the agent, which knows API keys,")
	}

	unscoped := len(me.Scopes) == 0
	c := caller{agentUser: me.ID, administrator: me.Administrator}

	// A key of an account here has at most the account's rights: the agent receives changes of
	// the account with a delay.
	if me.Issuer == s.cfg.Issuer {
		var id string

		u, err := s.oneUser(ctx, `, u.id FROM identity.users u
			WHERE u.id = $1 AND u.deleted_at IS NULL AND NOT u.disabled`, &id, me.Subject)
		if err != nil {
			return caller{}, err
		}

		lacks, err := s.lacks(ctx, u, accounts.HasSecondFactor, "")
		if err != nil {
			return caller{}, err
		}

		if c.administrator = u.Administrator && !lacks; unscoped {
			c.user, c.unproven = u, lacks
		}
	}

	c.administrator = c.administrator && (unscoped || slices.Contains(me.Scopes, "admin"))

	return c, nil
}
