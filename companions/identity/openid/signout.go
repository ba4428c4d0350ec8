package openid

import (
	"context"
	"errors"
	"net/url"

	"github.com/jackc/pgx/v5"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"everloop/companions/identity/accounts"
	"everloop/companions/identity/tokens"
)

// Revocation implements op.Server (RFC 7009): a client ends its session by one of the session's
// tokens. An unknown token, or one of another client, changes nothing.
func (p *Provider) Revocation(ctx context.Context, r *op.ClientRequest[oidc.RevocationRequest]) (*op.Response, error) {
	if len(r.Data.Token) > accounts.MaxCredential {
		return op.NewResponse(struct{}{}), nil
	}

	said, err := p.cfg.Keys.Verify(ctx, r.Data.Token)
	if err != nil && !errors.Is(err, tokens.ErrInvalid) {
		return nil, p.protocolError(ctx, err)
	}

	err = pgx.BeginFunc(ctx, p.db, func(tx pgx.Tx) error {
		var id, userID string

		err := tx.QueryRow(ctx, `
			SELECT s.id, s.user_id FROM identity.sessions s
			WHERE  s.client_id = $1 AND s.ended_at IS NULL AND
			       s.id IN (SELECT $2 UNION ALL SELECT t.session_id FROM identity.refresh_tokens t WHERE t.hash = $3)
			FOR UPDATE`, r.Client.GetID(), said.SessionID, accounts.Hash(r.Data.Token)).Scan(&id, &userID)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}

		if err != nil {
			return err
		}

		if err := accounts.EndSession(ctx, tx, id, "revoked"); err != nil {
			return err
		}

		details := addressOf(ctx)
		details["client"] = r.Client.GetID()

		return accounts.Audit(ctx, tx, userID, "auth.revoke", id, details)
	})
	if err != nil {
		return nil, p.protocolError(ctx, err)
	}

	return op.NewResponse(struct{}{}), nil
}

// EndSession implements op.Server: it ends the browser's session, and the sessions of all
// clients below it. Without an ID token any page could send the request: then the person
// confirms on the sign-out page of the service.
func (p *Provider) EndSession(ctx context.Context, r *op.Request[oidc.EndSessionRequest]) (*op.Redirect, error) {
	in := r.Data
	wrong := func(text string) (*op.Redirect, error) {
		return nil, oidc.ErrInvalidRequest().WithDescription("%s", text)
	}

	if in.IdTokenHint == "" {
		if in.PostLogoutRedirectURI != "" {
			return wrong("post_logout_redirect_uri needs an id_token_hint")
		}

		return op.NewRedirect("/"), nil
	}

	hint, err := p.verifyHint(ctx, in.IdTokenHint)
	if err != nil {
		return nil, p.protocolError(ctx, err)
	}

	c, known := p.clients[hint.AuthorizedParty]
	if !known || in.ClientID != "" && in.ClientID != c.ID {
		return wrong("id_token_hint is not of this client")
	}

	to := "/"

	if in.PostLogoutRedirectURI != "" {
		if err := op.ValidateEndSessionPostLogoutRedirectURI(in.PostLogoutRedirectURI, registered{c}); err != nil {
			return nil, err
		}

		if to, err = withState(in.PostLogoutRedirectURI, in.State); err != nil {
			return wrong("state is too long")
		}
	}

	if err := p.endBrowserSession(ctx, hint); err != nil {
		return nil, p.protocolError(ctx, err)
	}

	out := op.NewRedirect(to)
	for _, cookie := range p.cfg.EmptyCookies {
		out.Header.Add("Set-Cookie", cookie.String())
	}

	return out, nil
}

func withState(uri, state string) (string, error) {
	if len(state) > maxState {
		return "", errors.New("too long")
	}

	u, err := url.Parse(uri)
	if err != nil || state == "" {
		return uri, err
	}

	query := u.Query()
	query.Set("state", state)
	u.RawQuery = query.Encode()

	return u.String(), nil
}

// endBrowserSession ends the session of an ID token and the browser's session above it.
func (p *Provider) endBrowserSession(ctx context.Context, hint *oidc.IDTokenClaims) error {
	return pgx.BeginFunc(ctx, p.db, func(tx pgx.Tx) error {
		var top string

		err := tx.QueryRow(ctx, `SELECT coalesce(parent_id, id) FROM identity.sessions WHERE id = $1 AND user_id = $2`,
			hint.SessionID, hint.Subject).Scan(&top)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // it has ended long ago
		}

		if err != nil {
			return err
		}

		if err := accounts.EndSession(ctx, tx, top, "logout"); err != nil {
			return err
		}

		details := addressOf(ctx)
		details["client"] = hint.AuthorizedParty

		return accounts.Audit(ctx, tx, hint.Subject, "auth.logout", top, details)
	})
}
