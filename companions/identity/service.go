// Package identity is the identity service: people with passwords, their sign-ins, access
// tokens, and personal tokens. It is a separate service with its own schema in PostgreSQL,
// reached only over HTTP; it must not depend on sessions, chats or tables of the agent.
package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"everloop/companions/identity/openid"
	"everloop/companions/identity/pages"
	"everloop/companions/identity/passkeys"
	"everloop/companions/identity/passwords"
	"everloop/companions/identity/tokens"
	"everloop/companions/identity/upstream"
	"everloop/infra/secrets"
	"everloop/internal/clients"
	"everloop/internal/hosts"
)

const (
	connections           = 4000 // max open connections of clients; further ones wait
	connectionsPerAddress = 1000 // of one client

	maxConns    = 6 // of one process to PostgreSQL
	cleanEvery  = time.Minute
	requestTime = 30 * time.Second // for all that one request does
)

// Config configures the service. All fields except PasswordMemory, Log, Proxies, Origins and
// Hosts are required.
type Config struct {
	DatabaseURL string
	Box         *secrets.Box // seals signing keys and personal tokens
	Issuer      string       // the URL by which clients reach the service: `iss` of its tokens
	AgentURL    string       // validates API keys

	TokenTTL    time.Duration // life of an access token
	SessionTTL  time.Duration // life of a sign-in
	KeyRotation time.Duration // age at which a signing key is replaced

	UserGuesses    int // wrong passwords for one user name in a minute
	AddressGuesses int // and from one address

	// FirstPassword returns the password of the first administrator. It is called only while
	// there is no user, and must return the same after a crash.
	FirstPassword func() (string, error)

	PasswordMemory uint32 // KiB of a password's hash; 0: passwords.Memory

	AdminSecondFactor bool // administrators must sign in with a second factor

	Clients []openid.Client // of the OpenID provider; there are no others

	Providers []upstream.Provider // other providers with which people can sign in

	Proxies clients.Proxies // whose X-Forwarded-For names the client
	Origins []string        // of other sites whose pages may use the cookies
	Hosts   hosts.List
	Log     *slog.Logger // nil: the default one
}

// Service is the identity service.
type Service struct {
	cfg       Config
	log       *slog.Logger
	db        *pgxpool.Pool
	hasher    *passwords.Hasher
	agent     *agentKeys
	keys      *tokens.Keys
	mux       *http.ServeMux
	oidc      *openid.Provider
	protocols http.Handler // of the OpenID provider
	secure    bool         // the issuer is reached by HTTPS

	passkeys *passkeys.Party // nil: they are not offered

	flows map[string]*upstream.Flow // by the id of the provider

	pagePolicy string // Content-Security-Policy of the pages

	// MadeFirst reports that this start created the first administrator.
	MadeFirst bool
}

// Open migrates the schema, sets up the first administrator and the first signing key, and
// returns the service. The caller must close it.
func Open(ctx context.Context, cfg Config) (*Service, error) {
	issuer, err := url.Parse(cfg.Issuer)
	if err != nil || issuer.Host == "" || issuer.Scheme != "http" && issuer.Scheme != "https" || issuer.RawQuery != "" {
		return nil, errors.New("IDENTITY_ISSUER must be the URL of the service, as https://id.example.org")
	}

	if err := records.Migrate(ctx, cfg.DatabaseURL); err != nil {
		return nil, err
	}

	settings, err := pgxpool.ParseConfig(cfg.DatabaseURL)
	if err != nil {
		return nil, errors.New("DATABASE_URL is not a URL of PostgreSQL") // without the URL: it contains a password
	}

	settings.MaxConns = maxConns

	db, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}

	s := &Service{
		cfg: cfg, log: cfg.Log, db: db,
		hasher: passwords.NewHasher(max(1, runtime.GOMAXPROCS(0)/2), cmp.Or(cfg.PasswordMemory, passwords.Memory)),
		agent:  newAgentKeys(cfg.AgentURL), secure: issuer.Scheme == "https",
	}
	if s.log == nil {
		s.log = slog.Default()
	}

	s.keys = &tokens.Keys{DB: db, Box: cfg.Box, Issuer: cfg.Issuer, Life: cfg.TokenTTL}
	s.oidc, err = openid.New(openid.Config{
		DB: db, Box: cfg.Box, Keys: s.keys, Issuer: cfg.Issuer, Clients: cfg.Clients, Log: s.log,
		SessionTTL: cfg.SessionTTL, AdminSecondFactor: cfg.AdminSecondFactor,
		SessionCookie: func(r *http.Request) (*http.Cookie, error) { return s.cookie(r, sessionCookie) },
		EmptyCookies:  append(emptyCookies(true), emptyCookies(false)...),
	})

	party, unnamed := passkeys.New(issuer)
	s.passkeys = party

	if err := errors.Join(err, unnamed, s.keys.Rotate(ctx, cfg.KeyRotation), s.ensureFirst(ctx)); err != nil {
		db.Close()
		return nil, err
	}

	s.protocols = s.oidc.Handler()

	s.flows = map[string]*upstream.Flow{}
	for _, p := range cfg.Providers {
		s.flows[p.ID] = upstream.NewFlow(p, strings.TrimRight(cfg.Issuer, "/")+"/signin/callback/"+p.ID)
	}

	s.pagePolicy = pages.Policy(openid.Origins(cfg.Clients))
	s.routes()

	return s, nil
}

// Close closes the connections to PostgreSQL.
func (s *Service) Close() { s.db.Close() }

// Serve serves on a listener until ctx ends, then waits a few seconds for open requests. It
// closes the listener and the service.
func (s *Service) Serve(ctx context.Context, listener net.Listener) error {
	defer s.Close()

	cleaning, stopCleaning := context.WithCancel(ctx)

	cleaned := make(chan struct{})
	go func() { defer close(cleaned); s.cleanRegularly(cleaning) }()

	defer func() { stopCleaning(); <-cleaned }()

	return s.edge().Serve(ctx, listener)
}

// cleanRegularly rotates the signing key when it is due and removes expired rows.
func (s *Service) cleanRegularly(ctx context.Context) {
	ticker := time.NewTicker(cleanEvery)
	defer ticker.Stop()

	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			within, cancel := context.WithTimeout(ctx, requestTime)
			if err := errors.Join(s.keys.Rotate(within, s.cfg.KeyRotation), s.Clean(within)); err != nil && ctx.Err() == nil {
				s.log.Warn("failed to clean up, retrying in a minute", "error", err)
			}

			cancel()
		}
	}
}

// Clean ends sessions that were unused for 14 days, and removes unused rows, some thousands at
// a time.
func (s *Service) Clean(ctx context.Context) error {
	failed := s.oidc.Clean(ctx)

	for _, statement := range []string{
		`UPDATE identity.sessions SET ended_at = now(), ended_by = 'not used' WHERE id IN (
			SELECT id FROM identity.sessions
			WHERE ended_at IS NULL AND expires_at > now() AND last_used_at < now() - interval '14 days' LIMIT 5000)`,
		`DELETE FROM identity.sessions WHERE id IN (
			SELECT id FROM identity.sessions
			WHERE expires_at < now() - interval '1 day' OR ended_at < now() - interval '7 days' LIMIT 5000)`,
		`DELETE FROM identity.personal_tokens WHERE id IN (
			SELECT id FROM identity.personal_tokens WHERE revoked_at < now() - interval '7 days' LIMIT 5000)`,
		`DELETE FROM identity.authorization_codes WHERE hash IN (
			SELECT hash FROM identity.authorization_codes WHERE created_at < now() - interval '1 day' LIMIT 5000)`,
		`DELETE FROM identity.guesses WHERE key IN (
			SELECT key FROM identity.guesses
			WHERE at < now() - interval '1 hour'
			AND  (at < now() - interval '1 day' OR NOT starts_with(key, '` + dailyKey + `')) LIMIT 5000)`,
		`DELETE FROM identity.used_challenges WHERE hash IN (
			SELECT hash FROM identity.used_challenges WHERE at < now() - interval '1 hour' LIMIT 5000)`,
		`DELETE FROM identity.signing_keys WHERE retired_at < now() - interval '2 days'`,
		`DELETE FROM identity.audit WHERE id IN (
			SELECT id FROM identity.audit WHERE created_at < now() - interval '365 days' ORDER BY created_at LIMIT 5000)`,
	} {
		_, err := s.db.Exec(ctx, statement)
		failed = errors.Join(failed, err)
	}

	return failed
}
