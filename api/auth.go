package api

import (
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
)

// sessionCookie is the identity service's session cookie (decisions.md 8.29).
const sessionCookie = "everloop_session"

// authenticate finds out who is calling, or refuses the request: without
// credentials, or from a foreign page by cookie.
func (s *server) authenticate(ctx huma.Context, next func(huma.Context)) {
	caller, err := s.identify(fiberOf(ctx))
	if err != nil {
		s.refuse(ctx, err)
		return
	}
	requestOf(ctx.Context()).caller = caller
	next(ctx)
}

// admit lets a request in to the operation, or refuses it: beyond the caller's
// scopes, or with a body that was compressed.
func (s *server) admit(op operation) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		encoding, caller := fiberOf(ctx).Get(fiber.HeaderContentEncoding), callerOf(ctx.Context())
		switch {
		case encoding != "" && !strings.EqualFold(encoding, "identity"):
			s.refuse(ctx, domain.Newf(domain.Unsupported, "unsupported_media_type", "a compressed body is not accepted"))
		case op.public:
			next(ctx)
		case !auth.Allows(caller, op.scope):
			s.refuse(ctx, missingScope(op.scope))
		case op.scope == auth.Admin && !caller.User.Administrator:
			s.refuse(ctx, domain.Newf(domain.Forbidden, "administrator_required", "only administrators may do this"))
		default:
			next(ctx)
		}
	}
}

// identify asks the authentication package who is calling.
func (s *server) identify(c *fiber.Ctx) (domain.Caller, error) {
	credentials := auth.Credentials{Cookie: c.Cookies(sessionCookie)}
	scheme, token, _ := strings.Cut(c.Get(fiber.HeaderAuthorization), " ")
	if strings.EqualFold(scheme, "bearer") {
		credentials.Bearer = strings.TrimSpace(token)
	}
	caller, err := s.Auth.Authenticate(c.UserContext(), credentials)
	if err != nil {
		return domain.Caller{}, err
	}
	if credentials.Bearer == "" && !safe(c.Method()) && !s.sameOrigin(c) {
		return domain.Caller{}, domain.Newf(domain.Forbidden, "origin_refused",
			"a change by cookie needs the Origin of this service")
	}
	return caller, nil
}

func safe(method string) bool {
	return method == fiber.MethodGet || method == fiber.MethodHead || method == fiber.MethodOptions
}

// sameOrigin says whether the page that makes the request is one of ours: a
// browser sends the session cookie along whatever page asks.
func (s *server) sameOrigin(c *fiber.Ctx) bool {
	origin := c.Get(fiber.HeaderOrigin)
	if slices.Contains(s.Origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && u.Host == string(c.Request().Host())
}

func missingScope(scope auth.Scope) *domain.Error {
	if scope == auth.Unrestricted {
		return domain.Newf(domain.Forbidden, "scope_missing", "a key that is restricted to scopes cannot do this")
	}
	return domain.Newf(domain.Forbidden, "scope_missing", "the key lacks the scope %s", scope)
}

// refuse answers a middleware's refusal.
func (s *server) refuse(ctx huma.Context, err error) {
	_ = huma.WriteErr(s.huma, ctx, statusOf(domain.AsError(err)), "", &cause{err})
}

// cause carries an error through huma unchanged, whatever status goes with it.
type cause struct{ error }

func (c *cause) Unwrap() error { return c.error }
