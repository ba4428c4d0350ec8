// Package tokens signs and verifies the tokens of the identity service, with keys that it
// stores encrypted and rotates. It must not depend on HTTP or on the state of sessions.
package tokens

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"everloop/companions/identity/accounts"
	"everloop/infra/secrets"
)

const (
	// Audience is `aud` of access tokens: the services of one deployment.
	Audience = "everloop"
	// TokenType is `typ` of access tokens (RFC 9068), which no other token has.
	TokenType = "at+jwt"
)

// maxTokenTTL bounds the lifetime of access tokens. A retired key is published for longer.
const maxTokenTTL = 24 * time.Hour

// ErrInvalid is the error of a token that this service has not signed, or that has expired.
var ErrInvalid = errors.New("the token is not valid")

// Keys are the signing keys of the service.
type Keys struct {
	DB     *pgxpool.Pool
	Box    *secrets.Box
	Issuer string        // `iss` of the tokens
	Life   time.Duration // of an access token
}

// Claims are the private claims of an access token, in addition to the registered claims.
type Claims struct {
	SessionID     string `json:"sid"`
	Username      string `json:"preferred_username"`
	Name          string `json:"name"`
	Email         string `json:"email"`
	Administrator bool   `json:"administrator"`
	First         bool   `json:"first_administrator,omitempty"`
	Version       int64  `json:"user_version"`

	ClientClaims
}

// ClientClaims are the claims about the OpenID client of an access token.
type ClientClaims struct {
	ClientID string `json:"client_id,omitempty"`
	Scope    string `json:"scope,omitempty"`

	// Rights are the scopes of the agent that the token is restricted to; nil: all rights of
	// its person.
	Rights []string `json:"rights,omitempty"`
}

// Rotate creates a new signing key when the current one is older than age, or when there is
// none. The previous one still verifies tokens.
func (k *Keys) Rotate(ctx context.Context, age time.Duration) error {
	return pgx.BeginFunc(ctx, k.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(accounts.SchemaLock)); err != nil {
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

		id := accounts.NewID()

		sealed, err := k.Box.Seal("signing-key/"+id, private.Seed())
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

// Signer reads the current key, because another process may have rotated it. kind is the `typ`
// of the signed tokens. In a transaction q must be that transaction, so that no second
// connection is needed.
func (k *Keys) Signer(ctx context.Context, q accounts.Querier, kind jose.ContentType) (jose.Signer, error) {
	var (
		id     string
		sealed []byte
	)

	err := q.QueryRow(ctx, `SELECT id, sealed FROM identity.signing_keys WHERE retired_at IS NULL`).Scan(&id, &sealed)
	if err != nil {
		return nil, err
	}

	seed, err := k.Box.Open("signing-key/"+id, sealed)
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

// AccessToken returns a signed token for a session of a user; q as for [Keys.Signer].
func (k *Keys) AccessToken(
	ctx context.Context, q accounts.Querier, u accounts.User, sessionID string, expires time.Time, of ClientClaims,
) (string, time.Duration, error) {
	signer, err := k.Signer(ctx, q, TokenType)
	if err != nil {
		return "", 0, err
	}

	now := time.Now()
	life := min(k.Life, expires.Sub(now))
	token, err := jwt.Signed(signer).
		Claims(jwt.Claims{
			Issuer: k.Issuer, Subject: u.ID, Audience: jwt.Audience{Audience}, ID: accounts.NewID(),
			IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(life)),
		}).
		Claims(Claims{
			SessionID: sessionID, Username: u.Username, Name: u.Name, Email: u.Email,
			Administrator: u.Administrator, First: u.First, Version: u.Version, ClientClaims: of,
		}).Serialize()

	return token, life, err
}

// Set returns the public keys, including keys that no longer sign but may have signed a valid
// token.
func (k *Keys) Set(ctx context.Context) (jose.JSONWebKeySet, error) {
	rows, _ := k.DB.Query(ctx, `
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

// Verify verifies an access token and returns its claims. The caller must check that its
// session is still valid.
func (k *Keys) Verify(ctx context.Context, raw string) (Claims, error) {
	token, err := jwt.ParseSigned(raw, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil || len(token.Headers) != 1 || token.Headers[0].ExtraHeaders[jose.HeaderType] != TokenType {
		return Claims{}, ErrInvalid
	}

	set, err := k.Set(ctx)
	if err != nil {
		return Claims{}, err
	}

	keys := set.Key(token.Headers[0].KeyID)
	if len(keys) != 1 {
		return Claims{}, ErrInvalid
	}

	var (
		registered jwt.Claims
		own        Claims
	)
	if token.Claims(keys[0], &registered, &own) != nil || registered.Expiry == nil {
		return Claims{}, ErrInvalid
	}

	expected := jwt.Expected{Issuer: k.Issuer, AnyAudience: jwt.Audience{Audience}, Time: time.Now()}
	if registered.ValidateWithLeeway(expected, 0) != nil {
		return Claims{}, ErrInvalid
	}

	return own, nil
}
