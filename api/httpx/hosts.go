package httpx

import (
	"github.com/gofiber/fiber/v2"

	"everloop/domain"
	"everloop/internal/hosts"
)

// checkHost rejects pages whose name was made to point at this service (DNS
// rebinding): to a browser they would be of its own origin.
func checkHost(allowed hosts.List) fiber.Handler {
	return func(c *fiber.Ctx) error {
		if allowed.Allows(string(c.Request().Host())) {
			return c.Next()
		}

		return domain.Newf(domain.Forbidden, domain.CodeHostNotAllowed, "this host name is not allowed: add it to ALLOWED_HOSTS")
	}
}
