package system

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/service/compute"
)

// computeAPI manages where commands run.
type computeAPI struct {
	compute *compute.Service
}

// Register adds the operations of the area to the interface.
func (a *computeAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "reset-compute-env", Method: fiber.MethodPost, Path: "/api/user/compute-env/reset", Tag: "Environment",
		Summary:     "Stop background processes and drop cached state",
		Description: "Workspaces are not changed.",
		Scope:       auth.SessionsWrite,
		Errors:      httpx.Codes{409: "compute_env_busy"},
	},
		func(ctx context.Context, _ *struct{}) (*httpx.Body[domain.ComputeReset], error) {
			return httpx.Answer(a.compute.Reset(ctx, httpx.CallerOf(ctx).User.ID))
		})
	httpx.Register(r, httpx.Operation{
		ID: "check-compute-env-upgrade", Method: fiber.MethodGet, Path: "/api/user/compute-env/upgrade", Tag: "Environment",
		Summary: "Check whether the compute environment is outdated",
		Scope:   auth.SessionsRead,
	},
		func(ctx context.Context, _ *struct{}) (*httpx.Body[domain.ComputeUpgrade], error) {
			return httpx.Answer(a.compute.CheckUpgrade(ctx, httpx.CallerOf(ctx).User.ID))
		})
	httpx.Register(r, httpx.Operation{
		ID: "upgrade-compute-env", Method: fiber.MethodPost, Path: "/api/user/compute-env/upgrade", Tag: "Environment",
		Summary: "Reset the compute environment if it is outdated",
		Scope:   auth.SessionsWrite,
		Errors:  httpx.Codes{409: "compute_env_busy"},
	},
		func(ctx context.Context, _ *struct{}) (*httpx.Body[domain.ComputeReset], error) {
			return httpx.Answer(a.compute.Upgrade(ctx, httpx.CallerOf(ctx).User.ID))
		})
}
