package account

import (
	"context"
	"time"

	"github.com/gofiber/fiber/v2"

	"everloop/api/httpx"
	"everloop/domain"
)

// me is who the caller is and what the credential in use allows, so that other
// services that take the same credentials can ask.
type me struct {
	domain.User
	Scopes    []string   `json:"scopes" nullable:"true" doc:"What the credential is restricted to; null: nothing, it allows all that its user may do."`
	ExpiresAt *time.Time `json:"expires_at" doc:"When the credential ends; null: not by itself."`
	Issuer    string     `json:"issuer" doc:"The identity service that knows the user; empty for a user of this service alone." example:"https://id.example.org"`
	Subject   string     `json:"subject" doc:"The user's id there." example:"01a1ff63-4512-7ae4-a128-e82fd2a774e5"`
}

// MeAPI says who the caller is.
type MeAPI struct{}

// Register adds the operations of the area to the interface.
func (a *MeAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "get-me", Method: fiber.MethodGet, Path: "/api/auth/me", Tag: "Authentication",
		Summary: "Get the current user",
	}, func(ctx context.Context, _ *struct{}) (*httpx.Body[me], error) {
		caller := httpx.CallerOf(ctx)

		out := me{User: caller.User, ExpiresAt: caller.ExpiresAt, Issuer: caller.User.Issuer, Subject: caller.User.Subject}
		if len(caller.Scopes) > 0 {
			out.Scopes = caller.Scopes
		}

		return httpx.Answer(out, nil)
	})
}
