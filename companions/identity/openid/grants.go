package openid

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/jackc/pgx/v5"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"everloop/companions/identity/accounts"
	"everloop/companions/identity/tokens"
)

const (
	clientRefreshPrefix = "ec_r_"
)

// grant contains the data of a client session's tokens.
type grant struct {
	user       accounts.User
	sessionID  string
	clientID   string
	scopes     []string
	nonce      string // of the request; "" at a refresh
	signedInAt time.Time
	amr        string // how the person signed in
	expires    time.Time
	refresh    string // "" without offline_access
}

// refusal is why a code or a refresh token was rejected. It is recorded in the transaction in
// which the code was spent or the session ended, which therefore must commit.
type refusal struct{ action, description string }

// CodeExchange implements op.Server. A code is valid for one attempt, successful or not; a
// repeated code ends the session that was started with it. The tokens are signed in the
// transaction that spends the code, because clients would repeat the code after a later error.
func (p *Provider) CodeExchange(ctx context.Context, r *op.ClientRequest[oidc.AccessTokenRequest]) (*op.Response, error) {
	g := grant{clientID: r.Client.GetID()}

	var (
		refused *refusal
		made    *op.Response
	)

	err := pgx.BeginFunc(ctx, p.db, func(tx pgx.Tx) (err error) {
		refused, err = p.spendCode(ctx, tx, &g, r.Data)
		if err != nil {
			return err
		}

		if refused == nil {
			made, err = p.tokens(ctx, tx, g)
			return err
		}

		details := addressOf(ctx)
		details["client"] = g.clientID

		return accounts.Audit(ctx, tx, g.user.ID, refused.action, g.sessionID, details)
	})
	if err != nil {
		return nil, p.protocolError(ctx, err)
	}

	if refused != nil {
		return nil, oidc.ErrInvalidGrant().WithDescription("%s", refused.description)
	}

	return made, nil
}

func (p *Provider) spendCode(ctx context.Context, tx pgx.Tx, g *grant, in *oidc.AccessTokenRequest) (*refusal, error) {
	var (
		parentID, clientID, redirectURI, scope, challenge string
		made                                              *string
		used, young                                       bool
	)

	hash := accounts.Hash(in.Code)

	err := tx.QueryRow(ctx, `
		SELECT user_id, parent_id, client_id, redirect_uri, scope, nonce, challenge, session_id, used_at IS NOT NULL,
		       created_at > now() - make_interval(secs => $2)
		FROM   identity.authorization_codes WHERE hash = $1 FOR UPDATE`, hash, codeLife.Seconds()).Scan(
		&g.user.ID, &parentID, &clientID, &redirectURI, &scope, &g.nonce, &challenge, &made, &used, &young)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, oidc.ErrInvalidGrant().WithDescription("this code is not valid")
	}

	if err != nil {
		return nil, err
	}

	if used {
		if made != nil {
			g.sessionID = *made
			err = accounts.EndSession(ctx, tx, g.sessionID, "code reused")
		}

		return &refusal{"auth.code_reused", "this code was used before: its tokens have ended"}, err
	}

	if _, err := tx.Exec(ctx, `UPDATE identity.authorization_codes SET used_at = now() WHERE hash = $1`, hash); err != nil {
		return nil, err
	}

	wrong := func(description string) (*refusal, error) { return &refusal{"auth.code_refused", description}, nil }

	switch {
	case clientID != g.clientID:
		return wrong("this code was given to another client")
	case redirectURI != in.RedirectURI:
		return wrong("redirect_uri is not that of the request for this code")
	case !young:
		return wrong("this code has expired")
	case len(in.CodeVerifier) < 43 || len(in.CodeVerifier) > 128 || !oidc.VerifyCodeChallenge(
		&oidc.CodeChallenge{Challenge: challenge, Method: oidc.CodeChallengeMethodS256}, in.CodeVerifier):
		return wrong("code_verifier does not fit the code_challenge")
	}

	g.scopes = strings.Fields(scope)

	open, err := p.openClientSession(ctx, tx, g, parentID)
	if err != nil {
		return nil, err
	}

	if !open {
		return wrong("the sign-in behind this code has ended, or the consent to it was withdrawn")
	}

	_, err = tx.Exec(ctx, `UPDATE identity.authorization_codes SET session_id = $2 WHERE hash = $1`, hash, g.sessionID)

	return nil, err
}

// openClientSession creates the session of a client below the browser's; false when the
// browser's session has ended, or the person's consent was withdrawn.
func (p *Provider) openClientSession(ctx context.Context, tx pgx.Tx, g *grant, parentID string) (bool, error) {
	// The user is locked before sessions, in the same order as by a sign-in and by the deletion
	// of the user.
	err := tx.QueryRow(ctx, `
		SELECT `+accounts.Columns+` FROM identity.users u WHERE u.id = $1 AND u.deleted_at IS NULL AND NOT u.disabled FOR UPDATE`,
		g.user.ID).Scan(g.user.Columns()...)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}

	if err != nil {
		return false, err
	}

	// A withdrawal also locks the user, so that none happens before the end of the transaction.
	if allowed, err := p.consented(ctx, tx, g.user.ID, g.clientID, g.scopes); err != nil || !allowed {
		return false, err
	}

	err = tx.QueryRow(ctx, `
		SELECT signed_in_at, amr FROM identity.sessions WHERE id = $1 AND ended_at IS NULL AND expires_at > now() FOR UPDATE`,
		parentID).Scan(&g.signedInAt, &g.amr)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}

	if err != nil {
		return false, err
	}

	g.sessionID, g.expires = accounts.NewID(), time.Now().Add(p.cfg.Keys.Life)
	if slices.Contains(g.scopes, oidc.ScopeOfflineAccess) {
		g.refresh, g.expires = clientRefreshPrefix+rand.Text()+rand.Text(), time.Now().Add(p.cfg.SessionTTL)
	}

	var batch pgx.Batch
	batch.Queue(`
		UPDATE identity.sessions SET ended_at = now(), ended_by = 'too many sessions'
		WHERE  id IN (SELECT id FROM identity.sessions WHERE user_id = $1 AND ended_at IS NULL AND client_id <> ''
		              ORDER BY id DESC OFFSET $2)`, g.user.ID, accounts.MaxClientSessions-1)
	batch.Queue(`
		INSERT INTO identity.sessions (id, user_id, client_id, scope, parent_id, signed_in_at, address, expires_at, amr)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		g.sessionID, g.user.ID, g.clientID, strings.Join(g.scopes, " "), parentID, g.signedInAt, addressOf(ctx)["address"],
		g.expires, g.amr)

	if g.refresh != "" {
		batch.Queue(`INSERT INTO identity.refresh_tokens (hash, session_id) VALUES ($1, $2)`, accounts.Hash(g.refresh), g.sessionID)
	}

	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return false, err
	}

	details := addressOf(ctx)
	details["client"] = g.clientID

	return true, accounts.Audit(ctx, tx, g.user.ID, "auth.client_sign_in", g.sessionID, details)
}

// RefreshToken implements op.Server. A token is valid once: a repeated token ends its session,
// with all tokens that followed it. The new tokens are signed in the transaction that replaces
// it, because clients would repeat the old one after a later error.
func (p *Provider) RefreshToken(ctx context.Context, r *op.ClientRequest[oidc.RefreshTokenRequest]) (*op.Response, error) {
	g := grant{clientID: r.Client.GetID(), refresh: clientRefreshPrefix + rand.Text() + rand.Text()}

	var (
		reused bool
		made   *op.Response
	)

	err := pgx.BeginFunc(ctx, p.db, func(tx pgx.Tx) error {
		var (
			used  bool
			scope string
		)

		hash := accounts.Hash(r.Data.RefreshToken)

		err := tx.QueryRow(ctx, `
			SELECT `+accounts.Columns+`, s.id, s.scope, s.signed_in_at, s.amr, s.expires_at, t.used_at IS NOT NULL
			FROM   identity.refresh_tokens t JOIN identity.sessions s ON s.id = t.session_id JOIN identity.users u ON u.id = s.user_id
			WHERE  t.hash = $1 AND s.client_id = $2 AND s.ended_at IS NULL AND s.expires_at > now()
			       AND u.deleted_at IS NULL AND NOT u.disabled AND (NOT $3 OR `+accounts.WithSecondFactor+`)
			FOR UPDATE OF t, s`, hash, g.clientID, p.cfg.AdminSecondFactor).Scan(
			append(g.user.Columns(), &g.sessionID, &scope, &g.signedInAt, &g.amr, &g.expires, &used)...)
		if errors.Is(err, pgx.ErrNoRows) {
			return oidc.ErrInvalidGrant().WithDescription("this refresh token is not valid")
		}

		if err != nil {
			return err
		}

		if reused = used; used {
			if err := accounts.EndSession(ctx, tx, g.sessionID, "refresh reused"); err != nil {
				return err
			}

			details := addressOf(ctx)
			details["client"] = g.clientID

			return accounts.Audit(ctx, tx, g.user.ID, "auth.refresh_reused", g.sessionID, details)
		}

		g.scopes = strings.Fields(scope)
		for _, wanted := range r.Data.Scopes {
			if !slices.Contains(g.scopes, wanted) {
				return oidc.ErrInvalidScope().WithDescription("the sign-in did not include this scope")
			}
		}

		if len(r.Data.Scopes) > 0 {
			g.scopes = r.Data.Scopes
		}

		if err := accounts.ReplaceRefresh(ctx, tx, hash, g.refresh, g.sessionID); err != nil {
			return err
		}

		made, err = p.tokens(ctx, tx, g)

		return err
	})
	if err != nil {
		return nil, p.protocolError(ctx, err)
	}

	if reused {
		return nil, oidc.ErrInvalidGrant().WithDescription("this refresh token was used before: the session has ended, sign in again")
	}

	return made, nil
}

// tokens returns the signed tokens of a grant.
func (p *Provider) tokens(ctx context.Context, tx pgx.Tx, g grant) (*op.Response, error) {
	access, life, err := p.cfg.Keys.AccessToken(ctx, tx, g.user, g.sessionID, g.expires, tokens.ClientClaims{
		ClientID: g.clientID, Scope: strings.Join(g.scopes, " "), Rights: p.rights(g.clientID, g.scopes),
	})
	if err != nil {
		return nil, err
	}

	out := &oidc.AccessTokenResponse{
		AccessToken: access, TokenType: oidc.BearerToken, RefreshToken: g.refresh,
		ExpiresIn: uint64(max(0, life.Seconds())), Scope: g.scopes,
	}
	if slices.Contains(g.scopes, oidc.ScopeOpenID) {
		if out.IDToken, err = p.idToken(ctx, tx, g, access, life); err != nil {
			return nil, err
		}
	}

	return op.NewResponse(out), nil
}

func (p *Provider) idToken(ctx context.Context, tx pgx.Tx, g grant, access string, life time.Duration) (string, error) {
	signer, err := p.cfg.Keys.Signer(ctx, tx, "JWT")
	if err != nil {
		return "", err
	}

	claims := oidc.NewIDTokenClaims(
		p.cfg.Issuer, g.user.ID, nil, time.Now().Add(life), g.signedInAt, g.nonce, "", strings.Fields(g.amr), g.clientID, 0)

	claims.SessionID = g.sessionID
	if claims.AccessTokenHash, err = oidc.ClaimHash(access, jose.EdDSA); err != nil {
		return "", err
	}

	return jwt.Signed(signer).Claims(claims).Serialize()
}

// UserInfo implements op.Server: it returns the claims that the scopes of an access token
// permit.
func (p *Provider) UserInfo(ctx context.Context, r *op.Request[oidc.UserInfoRequest]) (*op.Response, error) {
	invalidToken := op.NewStatusError(
		(&oidc.Error{ErrorType: "invalid_token"}).WithDescription("the access token is not valid"), http.StatusUnauthorized)
	if len(r.Data.AccessToken) > accounts.MaxCredential {
		return nil, invalidToken
	}

	said, err := p.cfg.Keys.Verify(ctx, r.Data.AccessToken)

	var u accounts.User
	if err == nil {
		u, _, err = accounts.BySession(ctx, p.db, `s.id = $1`, said.SessionID)
	}

	if errors.Is(err, tokens.ErrInvalid) || errors.Is(err, pgx.ErrNoRows) {
		return nil, invalidToken
	}

	if err != nil {
		return nil, p.protocolError(ctx, err)
	}

	scopes := strings.Fields(said.Scope)
	if !slices.Contains(scopes, oidc.ScopeOpenID) {
		return nil, op.NewStatusError((&oidc.Error{ErrorType: "insufficient_scope"}).WithDescription(
			"the access token was made without the scope openid"), http.StatusForbidden)
	}

	info := &oidc.UserInfo{Subject: u.ID}
	if slices.Contains(scopes, oidc.ScopeProfile) {
		info.Name, info.PreferredUsername = u.Name, u.Username
	}

	if slices.Contains(scopes, oidc.ScopeEmail) {
		info.Email = u.Email
	}

	return op.NewResponse(info), nil
}
