package api

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"everloop/domain"
)

func (s *server) meRoutes() {
	add(s, operation{
		id: "get-me", method: fiber.MethodGet, path: "/api/auth/me", tag: "Authentication", summary: "Who the caller is",
	}, func(ctx context.Context, _ *struct{}) (*body[domain.User], error) {
		return answer(callerOf(ctx).User, nil)
	})
}
