package identity

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/jackc/pgx/v5"
)

const (
	// Audience is `aud` of access tokens: the services of one deployment.
	Audience = "everloop"
	// TokenType is `typ` of access tokens (RFC 9068), which no other token has.
	TokenType = "at+jwt"
)

// maxTokenTTL bounds the life of access tokens. A retired key is shown for longer.
const maxTokenTTL = 24 * time.Hour

// claims are what an access token says beside the registered claims.
type claims struct {
	SessionID     string `json:"sid"`
	Username      string `json:"preferred_username"`
	Name          string `json:"name"`
	Email         string `json:"email"`
	Administrator bool   `json:"administrator"`
	First         bool   `json:"first_administrator,omitempty"`
	Version       int64  `json:"user_version"`

	clientClaims
}

// clientClaims are what an access token says of the OpenID client that it was made for.
type clientClaims struct {
	ClientID string `json:"client_id,omitempty"`
	Scope    string `json:"scope,omitempty"`
}

// rotateKey makes a new signing key when the current one is older than age, or when
// there is none. The one before goes on verifying.
func (s *Service) rotateKey(ctx context.Context, age time.Duration) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(schemaLock)); err != nil {
			return err
		}

		var current bool

		err := tx.QueryRow(ctx, `
			SELECT EXISTS (SELECT 1 FROM identity.signing_keys
			               WHERE retired_at IS NULL AND created_at > now() - make_interval(secs => $1))`,
			age.Seconds()).Scan(&current)
		if err != nil || current {
			return err
		}

		public, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return err
		}

		id := newID()

		sealed, err := s.cfg.Box.Seal("signing-key/"+id, private.Seed())
		if err != nil {
			return err
		}

		if _, err := tx.Exec(ctx, `UPDATE identity.signing_keys SET retired_at = now() WHERE retired_at IS NULL`); err != nil {
			return err
		}

		_, err = tx.Exec(ctx, `INSERT INTO identity.signing_keys (id, public, sealed) VALUES ($1, $2, $3)`, id, []byte(public), sealed)

		return err
	})
}

// signer reads the current key: another process may have rotated it. kind is `typ` of
// what it signs.
func (s *Service) signer(ctx context.Context, kind jose.ContentType) (jose.Signer, error) {
	var (
		id     string
		sealed []byte
	)

	err := s.db.QueryRow(ctx, `SELECT id, sealed FROM identity.signing_keys WHERE retired_at IS NULL`).Scan(&id, &sealed)
	if err != nil {
		return nil, err
	}

	seed, err := s.cfg.Box.Open("signing-key/"+id, sealed)
	if err != nil {
		return nil, fmt.Errorf("open the signing key: %w", err)
	}

	if len(seed) != ed25519.SeedSize {
		return nil, errors.New("the signing key has a wrong length")
	}

	return jose.NewSigner(
		jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: ed25519.NewKeyFromSeed(seed), KeyID: id}},
		(&jose.SignerOptions{}).WithType(kind),
	)
}

// accessToken signs a token for a session of a user.
func (s *Service) accessToken(
	ctx context.Context, u user, sessionID string, expires time.Time, of clientClaims,
) (string, time.Duration, error) {
	signer, err := s.signer(ctx, TokenType)
	if err != nil {
		return "", 0, err
	}

	now := time.Now()
	life := min(s.cfg.TokenTTL, expires.Sub(now))
	token, err := jwt.Signed(signer).
		Claims(jwt.Claims{
			Issuer: s.cfg.Issuer, Subject: u.ID, Audience: jwt.Audience{Audience}, ID: newID(),
			IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(life)),
		}).
		Claims(claims{
			SessionID: sessionID, Username: u.Username, Name: u.Name, Email: u.Email,
			Administrator: u.Administrator, First: u.First, Version: u.Version, clientClaims: of,
		}).Serialize()

	return token, life, err
}

// keySet is the public keys, those included that do not sign any more but may still
// have signed a valid token.
func (s *Service) keySet(ctx context.Context) (jose.JSONWebKeySet, error) {
	rows, _ := s.db.Query(ctx, `
		SELECT id, public FROM identity.signing_keys
		WHERE  retired_at IS NULL OR retired_at > now() - make_interval(secs => $1)
		ORDER  BY id DESC LIMIT 100`, (maxTokenTTL + time.Hour).Seconds())
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}

	var (
		id     string
		public []byte
	)

	_, err := pgx.ForEachRow(rows, []any{&id, &public}, func() error {
		set.Keys = append(set.Keys, jose.JSONWebKey{
			Key: ed25519.PublicKey(append([]byte(nil), public...)), KeyID: id, Algorithm: string(jose.EdDSA), Use: "sig",
		})

		return nil
	})

	return set, err
}

// verifyToken verifies an access token and returns what it says. Whether its session
// goes on is for the caller to ask.
func (s *Service) verifyToken(ctx context.Context, raw string) (claims, error) {
	token, err := jwt.ParseSigned(raw, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil || len(token.Headers) != 1 || token.Headers[0].ExtraHeaders[jose.HeaderType] != TokenType {
		return claims{}, unauthorized()
	}

	set, err := s.keySet(ctx)
	if err != nil {
		return claims{}, err
	}

	keys := set.Key(token.Headers[0].KeyID)
	if len(keys) != 1 {
		return claims{}, unauthorized()
	}

	var (
		registered jwt.Claims
		own        claims
	)
	if token.Claims(keys[0], &registered, &own) != nil || registered.Expiry == nil {
		return claims{}, unauthorized()
	}

	expected := jwt.Expected{Issuer: s.cfg.Issuer, AnyAudience: jwt.Audience{Audience}, Time: time.Now()}
	if registered.ValidateWithLeeway(expected, 0) != nil {
		return claims{}, unauthorized()
	}

	return own, nil
}

// rotateNow replaces the signing key at once, when it may have been read by others.
func (s *Service) rotateNow(w http.ResponseWriter, r *http.Request) error {
	c, err := s.administrator(r)
	if err != nil {
		return err
	}

	if err := s.rotateKey(r.Context(), 0); err != nil {
		return err
	}

	if err := s.audit(r.Context(), s.db, c.actor(), "key.rotate", "", nil); err != nil {
		return err
	}

	w.WriteHeader(http.StatusNoContent)

	return nil
}

// showKeySet is the JWKS.
func (s *Service) showKeySet(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Access-Control-Allow-Origin", "*")

	set, err := s.keySet(r.Context())
	if err != nil {
		return err
	}

	answer(w, http.StatusOK, set)

	return nil
}
