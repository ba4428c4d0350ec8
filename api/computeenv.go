package api

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
)

// ComputeEnvironment is where the commands of a user's agents run. Reset and
// Upgrade are refused with compute_env_busy while a chat of the user's runs.
type ComputeEnvironment interface {
	Reset(ctx context.Context, userID string) (domain.ComputeReset, error)
	CheckUpgrade(ctx context.Context, userID string) (domain.ComputeUpgrade, error)
	Upgrade(ctx context.Context, userID string) (domain.ComputeReset, error)
}

func (s *server) computeRoutes() {
	const path = "/api/user/compute-env"
	op := func(id, method, path, summary string, scope auth.Scope) operation {
		return operation{id: id, method: method, path: path, tag: "Environment", summary: summary, scope: scope}
	}
	add(s, op("reset-compute-env", fiber.MethodPost, path+"/reset", "End what runs in the background, and forget what was read", auth.SessionsWrite),
		func(ctx context.Context, _ *struct{}) (*body[domain.ComputeReset], error) {
			return answer(s.Compute.Reset(ctx, callerOf(ctx).User.ID))
		})
	add(s, op("check-compute-env-upgrade", fiber.MethodGet, path+"/upgrade", "Whether the compute environment is behind", auth.SessionsRead),
		func(ctx context.Context, _ *struct{}) (*body[domain.ComputeUpgrade], error) {
			return answer(s.Compute.CheckUpgrade(ctx, callerOf(ctx).User.ID))
		})
	add(s, op("upgrade-compute-env", fiber.MethodPost, path+"/upgrade", "Reset the compute environment if it is behind", auth.SessionsWrite),
		func(ctx context.Context, _ *struct{}) (*body[domain.ComputeReset], error) {
			return answer(s.Compute.Upgrade(ctx, callerOf(ctx).User.ID))
		})
}
