package httpx

import (
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
	"everloop/internal/clients"
)

// SessionCookie is the session cookie of the identity service; over HTTPS with the prefix __Host-.
const SessionCookie = "everloop_session"

// authenticator identifies callers by their credentials.
type authenticator struct {
	auth    *auth.Authenticator
	auditor *auth.Auditor
	clients addresses
	origins []string
}

// authenticate finds out who is calling, or refuses the request: without
// credentials, or from a foreign page by cookie.
func (a *authenticator) authenticate(ctx huma.Context, next func(huma.Context)) {
	caller, err := a.identify(FiberOf(ctx))
	if err != nil {
		Reject(ctx, err)
		return
	}

	RequestOf(ctx.Context()).Caller, RequestOf(ctx.Context()).Came = caller, a.clients.credentialsOf(FiberOf(ctx))
	a.auditor.SignedIn(ctx.Context(), caller, auth.EdgeREST, a.clients.of(FiberOf(ctx)).String())
	next(ctx)
}

// admit lets a request in to the operation, or refuses it: beyond the caller's
// scopes, or with a body that was compressed.
func admit(op Operation) func(huma.Context, func(huma.Context)) {
	subject := firstParameter(op.Path)

	return func(ctx huma.Context, next func(huma.Context)) {
		if subject != "" {
			RequestOf(ctx.Context()).target = ctx.Param(subject)
		}

		encoding, caller := FiberOf(ctx).Get(fiber.HeaderContentEncoding), CallerOf(ctx.Context())
		switch {
		case encoding != "" && !strings.EqualFold(encoding, "identity"):
			Reject(ctx, domain.Newf(domain.Unsupported, "unsupported_media_type", "a compressed body is not accepted"))
		case op.Public:
			next(ctx)
		case !auth.Allows(caller, op.Scope):
			Reject(ctx, auth.Check(caller, op.Scope))
		case op.Scope == auth.Admin && !caller.User.Administrator:
			Reject(ctx, domain.Newf(domain.Forbidden, "administrator_required", "only administrators may do this"))
		default:
			next(ctx)
		}
	}
}

// credentialsOf are copies: a string of the request lives only as long as it does.
func (a addresses) credentialsOf(c *fiber.Ctx) auth.Credentials {
	cookie := clients.ReadCookie(SessionCookie, a.https(c), func(name string) string { return c.Cookies(name) })
	credentials := auth.Credentials{Cookie: strings.Clone(cookie)}

	scheme, token, _ := strings.Cut(c.Get(fiber.HeaderAuthorization), " ")
	if strings.EqualFold(scheme, "bearer") {
		credentials.Bearer = strings.Clone(strings.TrimSpace(token))
	}

	return credentials
}

// identify asks the authentication package who is calling.
func (a *authenticator) identify(c *fiber.Ctx) (domain.Caller, error) {
	credentials := a.clients.credentialsOf(c)

	from := a.clients.of(c)

	caller, err := a.auth.AuthenticateFrom(
		c.UserContext(), auth.From{Network: clients.Network(from).String(), IP: clients.IP(from)}, credentials)
	if err != nil {
		return domain.Caller{}, err
	}

	if credentials.Bearer == "" && !IsSafe(c.Method()) && !a.sameOrigin(c) {
		return domain.Caller{}, domain.Newf(domain.Forbidden, "origin_refused",
			"a change by cookie needs the Origin of this service")
	}

	return caller, nil
}

// IsSafe reports whether a method changes nothing.
func IsSafe(method string) bool {
	return method == fiber.MethodGet || method == fiber.MethodHead || method == fiber.MethodOptions
}

// sameOrigin reports whether the page that makes the request is one of ours: a
// browser sends the session cookie along whatever page asks.
func (a *authenticator) sameOrigin(c *fiber.Ctx) bool {
	origin := c.Get(fiber.HeaderOrigin)
	if slices.Contains(a.origins, origin) {
		return true
	}

	u, err := url.Parse(origin)

	return err == nil && u.Host != "" && u.Host == string(c.Request().Host())
}

// Reject answers with an error, for what is outside of a handler.
func Reject(ctx huma.Context, err error) {
	_ = huma.WriteErr(exchangeOf(ctx).api, ctx, statusOf(domain.AsError(err)), "", &cause{err})
}

// cause carries an error through huma unchanged, whatever status goes with it.
type cause struct{ error }

func (c *cause) Unwrap() error { return c.error }
