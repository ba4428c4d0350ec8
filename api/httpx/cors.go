package httpx

import (
	"slices"

	"github.com/gofiber/fiber/v2"
)

// exposed are the headers of answers that pages may read, in addition to the few that
// every page may.
const exposed = "Accept-Ranges, Allow, Content-Disposition, Content-Range, ETag, Idempotency-Replayed, " +
	"RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Retry-After, WWW-Authenticate, X-Request-Id"

// crossOrigin lets the configured origins call from browsers. Others get no
// header, which makes browsers refuse.
func crossOrigin(origins []string) fiber.Handler {
	return func(c *fiber.Ctx) error {
		if len(origins) == 0 {
			return c.Next()
		}

		c.Vary(fiber.HeaderOrigin)

		origin := c.Get(fiber.HeaderOrigin)
		if !slices.Contains(origins, origin) {
			return c.Next()
		}

		c.Set(fiber.HeaderAccessControlAllowOrigin, origin)
		c.Set(fiber.HeaderAccessControlAllowCredentials, "true")
		c.Set(fiber.HeaderAccessControlExposeHeaders, exposed)

		if c.Method() != fiber.MethodOptions || c.Get(fiber.HeaderAccessControlRequestMethod) == "" {
			return c.Next()
		}

		c.Set(fiber.HeaderAccessControlAllowMethods, "GET, HEAD, POST, PUT, PATCH, DELETE")
		c.Set(fiber.HeaderAccessControlAllowHeaders,
			"Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Range, X-Request-Id")
		c.Set(fiber.HeaderAccessControlMaxAge, "600")

		return c.SendStatus(fiber.StatusNoContent)
	}
}
