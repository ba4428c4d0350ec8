package openid

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/jackc/pgx/v5"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
	"github.com/zitadel/schema"

	"everloop/companions/identity/accounts"
	"everloop/companions/identity/tokens"
)

const (
	codePrefix = "ec_"

	codeLife = time.Minute
	maxCodes = 20 // unused codes of one session; a further one deletes the oldest
	// SignInTime is the maximum time from a client's request until the person's sign-in.
	SignInTime = 10 * time.Minute

	// MaxAuthorize bounds the parameters of a request, in bytes.
	MaxAuthorize = 8 << 10
	maxState     = 2 << 10
	maxNonce     = 512

	askedParameter = "everloop_asked"
)

// request is an authorization request with a valid client and redirect URI.
type request struct {
	*oidc.AuthRequest
	form   url.Values // its parameters
	client Client
}

// parse parses an authorization request, and checks client and redirect URI.
func (p *Provider) parse(form url.Values) (*request, error) {
	decoder := schema.NewDecoder()
	decoder.IgnoreUnknownKeys(true)

	in := &oidc.AuthRequest{}
	if err := decoder.Decode(in, form); err != nil {
		return nil, oidc.ErrInvalidRequest().WithDescription("cannot parse auth request").WithParent(err)
	}

	c, known := p.clients[in.ClientID]
	if !known {
		return nil, oidc.ErrInvalidRequest().WithDescription("no client of this client_id is registered")
	}

	return &request{in, form, c}, op.ValidateAuthReqRedirectURI(registered{c}, in.RedirectURI, in.ResponseType)
}

// serveAuthorize handles an authorization request. Errors are returned to the client, once its
// redirect URI is validated.
func (p *Provider) serveAuthorize(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		op.WriteError(w, r, oidc.ErrInvalidRequest().WithDescription("cannot parse form").WithParent(err), quiet)
		return
	}

	in, err := p.parse(r.Form)
	if err != nil {
		op.WriteError(w, r, err, quiet)
		return
	}

	to, err := p.authorize(r, in)
	if refused, ok := errors.AsType[*oidc.Error](err); ok && !refused.IsRedirectDisabled() {
		to, err = p.refuse(in, refused)
	}

	if err != nil {
		op.WriteError(w, r, err, quiet)
		return
	}

	http.Redirect(w, r, to, http.StatusFound)
}

// authorize returns the URL to redirect the browser to: the client's with a code, the sign-in
// page, or the consent page. It stores nothing of a waiting request: the pages redirect to the
// same request.
func (p *Provider) authorize(r *http.Request, in *request) (string, error) {
	ctx := r.Context()

	b, err := p.examine(r, in)
	if err != nil {
		return "", p.protocolError(ctx, err)
	}

	silent := slices.Contains(in.Prompt, oidc.PromptNone)

	if !b.fits {
		if silent {
			return "", oidc.ErrLoginRequired().WithDescription("no user has signed in")
		}

		return p.signInPage(ctx, in, b)
	}

	needed, err := p.needsConsent(ctx, b, in)
	if err != nil {
		return "", p.protocolError(ctx, err)
	}

	if needed {
		if silent {
			return "", consentRequired()
		}

		return ConsentPath + "?" + url.Values{"authorize": {in.form.Encode()}}.Encode(), nil
	}

	code, err := p.issueCode(ctx, p.db, b, in)
	if err != nil {
		return "", p.protocolError(ctx, err)
	}

	return p.answer(in, url.Values{"code": {code}})
}

// examine checks a request, and returns who has signed in with its browser.
func (p *Provider) examine(r *http.Request, in *request) (browser, error) {
	if err := checkAuthorize(in); err != nil {
		return browser{}, err
	}

	b, err := p.browser(r)
	if err != nil {
		return b, err
	}

	hinted, err := p.hinted(r.Context(), in.IDTokenHint)
	if err != nil {
		return b, err
	}

	b.asked = p.asked(in, b.now)
	b.fits = b.suits(in, hinted)

	return b, nil
}

// signInPage returns the URL of the sign-in page, which redirects to the request.
func (p *Provider) signInPage(ctx context.Context, in *request, b browser) (string, error) {
	asked := b.asked
	if asked.IsZero() {
		asked = b.now
	}

	sealed, err := p.cfg.Box.Seal(askedPurpose(in), []byte(asked.Format(time.RFC3339Nano)))
	if err != nil {
		return "", p.protocolError(ctx, err)
	}

	again := url.Values{}
	maps.Copy(again, in.form)
	again.Set(askedParameter, base64.RawURLEncoding.EncodeToString(sealed))

	return "/?" + url.Values{"authorize": {again.Encode()}}.Encode(), nil
}

// refuse returns the redirect URI of a request with an error.
func (p *Provider) refuse(in *request, refused *oidc.Error) (string, error) {
	return p.answer(in, url.Values{"error": {string(refused.ErrorType)}, "error_description": {refused.Description}})
}

// answer returns the redirect URI of a request with the parameters of its answer: values, its
// state, and the issuer (RFC 9207), which clients also need for errors.
func (p *Provider) answer(in *request, values url.Values) (string, error) {
	to, err := url.Parse(in.RedirectURI)
	if err != nil {
		return "", oidc.ErrServerError().WithParent(err)
	}

	values.Set("iss", p.cfg.Issuer)

	if in.State != "" {
		values.Set("state", in.State)
	}

	implicit := in.ResponseType == oidc.ResponseTypeIDToken || in.ResponseType == oidc.ResponseTypeIDTokenOnly
	if in.ResponseMode == oidc.ResponseModeFragment || implicit && in.ResponseMode != oidc.ResponseModeQuery {
		return to.String() + "#" + values.Encode(), nil
	}

	query := to.Query()
	maps.Copy(query, values)
	to.RawQuery = query.Encode()

	return to.String(), nil
}

// checkAuthorize checks everything except client and redirect URI. PKCE with S256 is required.
func checkAuthorize(in *request) (err error) {
	c := registered{in.client}
	wrong := func(text string) error { return oidc.ErrInvalidRequest().WithDescription("%s", text) }

	if in.RequestParam != "" || in.form.Get("request_uri") != "" {
		return oidc.ErrRequestNotSupported().WithDescription("request objects are not supported")
	}

	if len(in.form.Encode()) > MaxAuthorize || len(in.State) > maxState || len(in.Nonce) > maxNonce {
		return wrong("the request, state or nonce is too long")
	}

	for name, values := range in.form {
		if len(values) > 1 {
			return wrong("a parameter must not come twice")
		}

		if strings.ContainsRune(name+values[0], 0) || !utf8.ValidString(name+values[0]) {
			return wrong("parameters must be text")
		}
	}

	if in.MaxAge, err = op.ValidateAuthReqPrompt(in.Prompt, in.MaxAge); err != nil {
		return err
	}

	if in.Scopes, err = op.ValidateAuthReqScopes(c, in.Scopes); err != nil {
		return err
	}

	// Scopes that the library supports and this service does not grant nothing, so that no
	// consent is needed.
	in.Scopes = slices.DeleteFunc(in.Scopes, func(scope string) bool { return !slices.Contains(Scopes(), scope) })

	if err := op.ValidateAuthReqResponseType(c, in.ResponseType); err != nil {
		return err
	}

	digest, err := base64.RawURLEncoding.DecodeString(in.CodeChallenge)
	if in.CodeChallengeMethod != oidc.CodeChallengeMethodS256 || err != nil || len(digest) != 32 {
		return wrong("PKCE is required: code_challenge with code_challenge_method S256")
	}

	if in.ResponseMode != "" && in.ResponseMode != oidc.ResponseModeQuery && in.ResponseMode != oidc.ResponseModeFragment {
		return wrong("response_mode must be query or fragment")
	}

	return nil
}

// browser is the sign-in of a request's browser.
type browser struct {
	user       accounts.User // the zero value: none
	sessionID  string
	signedInAt time.Time
	now        time.Time // of the database, like signedInAt
	asked      time.Time // time of the first request; zero: now
	fits       bool      // the sign-in meets the request
}

func (p *Provider) browser(r *http.Request) (browser, error) {
	ctx := r.Context()

	var b browser

	hash := []byte{}
	if cookie, err := p.cfg.SessionCookie(r); err == nil && len(cookie.Value) <= accounts.MaxCredential {
		hash = accounts.Hash(cookie.Value)
	}

	err := p.db.QueryRow(ctx, `
		SELECT `+accounts.Columns+`, s.id, s.signed_in_at, now() FROM identity.sessions s JOIN identity.users u ON u.id = s.user_id
		WHERE  s.cookie_hash = $1 AND s.ended_at IS NULL AND s.expires_at > now() AND u.deleted_at IS NULL AND NOT u.disabled
		AND    (NOT $2 OR `+accounts.WithSecondFactor+`)`, hash, p.cfg.AdminSecondFactor,
	).Scan(append(b.user.Columns(), &b.sessionID, &b.signedInAt, &b.now)...)
	if errors.Is(err, pgx.ErrNoRows) {
		err = p.db.QueryRow(ctx, `SELECT now()`).Scan(&b.now)
	}

	return b, err
}

// suits reports whether the sign-in meets the request: it is of the hinted person, and at most
// max_age old, or after the request.
func (b browser) suits(in *request, hinted string) bool {
	if b.sessionID == "" || hinted != "" && hinted != b.user.ID {
		return false
	}

	if !b.asked.IsZero() && !b.signedInAt.Before(b.asked) {
		return true
	}

	if slices.Contains(in.Prompt, oidc.PromptSelectAccount) || slices.Contains(in.Prompt, oidc.PromptLogin) {
		return false
	}

	return in.MaxAge == nil || b.now.Sub(b.signedInAt) <= time.Duration(min(*in.MaxAge, 1<<31))*time.Second
}

// asked returns the time of the first request, for one that the sign-in page redirects to.
func (p *Provider) asked(in *request, now time.Time) time.Time {
	sealed, err := base64.RawURLEncoding.DecodeString(in.form.Get(askedParameter))
	if err != nil {
		return time.Time{}
	}

	text, err := p.cfg.Box.Open(askedPurpose(in), sealed)
	if err != nil {
		return time.Time{}
	}

	asked, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil || now.Sub(asked) > SignInTime {
		return time.Time{}
	}

	return asked
}

// askedPurpose binds the time to one request: its challenge is random.
func askedPurpose(in *request) string {
	return "openid-asked/" + in.ClientID + "/" + in.CodeChallenge
}

// hinted returns the person of an id_token_hint, which may have expired; "" without one.
func (p *Provider) hinted(ctx context.Context, hint string) (string, error) {
	if hint == "" {
		return "", nil
	}

	claims, err := p.verifyHint(ctx, hint)
	if err != nil {
		return "", err
	}

	return claims.Subject, nil
}

// verifyHint verifies an ID token of this service. It ignores the expiry.
func (p *Provider) verifyHint(ctx context.Context, hint string) (*oidc.IDTokenClaims, error) {
	verifier := op.NewIDTokenHintVerifier(p.cfg.Issuer, keys{p.cfg.Keys}, op.WithSupportedIDTokenHintSigningAlgorithms(string(jose.EdDSA)))

	claims, err := op.VerifyIDTokenHint[*oidc.IDTokenClaims](ctx, hint, verifier)
	if _, expired := errors.AsType[op.IDTokenHintExpiredError](err); expired {
		err = nil
	}

	if err != nil || claims.AuthorizedParty == "" { // an access token names no party
		return nil, oidc.ErrInvalidRequest().WithDescription("id_token_hint is not an ID token of this service")
	}

	return claims, nil
}

// keys verifies signatures with the keys of the service.
type keys struct{ *tokens.Keys }

// VerifySignature implements oidc.KeySet.
func (k keys) VerifySignature(ctx context.Context, signed *jose.JSONWebSignature) ([]byte, error) {
	set, err := k.Set(ctx)
	if err != nil {
		return nil, err
	}

	if len(signed.Signatures) != 1 {
		return nil, errors.New("one signature is needed")
	}

	found := set.Key(signed.Signatures[0].Header.KeyID)
	if len(found) != 1 {
		return nil, errors.New("the key is not known")
	}

	return signed.Verify(found[0])
}

// beginner is a pool or a transaction.
type beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// issueCode creates an authorization code for a session.
func (p *Provider) issueCode(ctx context.Context, db beginner, b browser, in *request) (string, error) {
	code := codePrefix + rand.Text() + rand.Text()

	return code, pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		var open bool

		err := tx.QueryRow(ctx, `SELECT ended_at IS NULL FROM identity.sessions WHERE id = $1 FOR UPDATE`, b.sessionID).Scan(&open)
		if err != nil {
			return err
		}

		if !open {
			return oidc.ErrLoginRequired().WithDescription("the session has ended")
		}

		var batch pgx.Batch
		batch.Queue(`
			DELETE FROM identity.authorization_codes WHERE hash IN (
				SELECT hash FROM identity.authorization_codes WHERE parent_id = $1 AND used_at IS NULL
				ORDER BY created_at DESC OFFSET $2)`, b.sessionID, maxCodes-1)
		batch.Queue(`
			INSERT INTO identity.authorization_codes (hash, user_id, parent_id, client_id, redirect_uri, scope, nonce, challenge)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			accounts.Hash(code), b.user.ID, b.sessionID, in.ClientID, in.RedirectURI, strings.Join(in.Scopes, " "), in.Nonce,
			in.CodeChallenge)

		return tx.SendBatch(ctx, &batch).Close()
	})
}
