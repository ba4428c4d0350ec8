package inbox

import (
	"context"
	"fmt"

	"everloop/domain"
)

// Compute is the compute environment of a user: the sandboxes of all of the
// user's sessions. A sandbox is made for each command, so that only what outlives
// its command can be old: commands in the background, tool servers, and what the
// service remembers of files that were read. Workspaces are never touched.
type Compute struct {
	Records ComputeRecords
	Tasks   interface {
		Stop(ctx context.Context, sessionID, taskID string) (domain.BackgroundTask, error)
	}
	ToolServers interface {
		UserDeleted(ctx context.Context, userID string) error // ends them; they start again when they are used
	}
	Version string // of the environment that commands get now
}

// ComputeRecords keep what is known of compute environments.
type ComputeRecords interface {
	ComputeWork(ctx context.Context, userID string) (domain.ComputeWork, error)
	ForgetReads(ctx context.Context, userID string) (int, error)
	ComputeVersion(ctx context.Context, userID, current string) (string, error)
	SetComputeVersion(ctx context.Context, userID, version string) error
}

// Reset ends what runs in the background for the user and forgets what was read.
// While a chat runs it is refused with compute_env_busy: its commands must not
// vanish under it.
func (c *Compute) Reset(ctx context.Context, userID string) (done domain.ComputeReset, err error) {
	work, err := c.Records.ComputeWork(ctx, userID)
	if err != nil {
		return done, err
	}
	if work.Chats > 0 {
		return done, domain.Newf(domain.Conflict, "compute_env_busy", "chats run in %d of your sessions; stop them first, or wait for their end", work.Chats)
	}
	for _, task := range work.Tasks {
		if _, err := c.Tasks.Stop(ctx, task.SessionID, task.TaskID); err != nil {
			return done, err
		}
		done.RemovedContainers++
	}
	if err := c.ToolServers.UserDeleted(ctx, userID); err != nil {
		return done, err
	}
	if done.ClearedMemo, err = c.Records.ForgetReads(ctx, userID); err != nil {
		return done, err
	}
	return done, c.Records.SetComputeVersion(ctx, userID, c.Version)
}

// CheckUpgrade compares the user's environment with the current one.
func (c *Compute) CheckUpgrade(ctx context.Context, userID string) (domain.ComputeUpgrade, error) {
	version, err := c.Records.ComputeVersion(ctx, userID, c.Version)
	check := domain.ComputeUpgrade{
		UpgradeAvailable: version != c.Version, CurrentVersion: version, TargetVersion: c.Version,
		Reason: "the environment is up to date",
	}
	if check.UpgradeAvailable {
		check.Reason = fmt.Sprintf("the service has come to %s since; what runs in the background may be of %s", c.Version, version)
	}
	return check, err
}

// Upgrade resets an environment that is behind; one that is not stays as it is.
func (c *Compute) Upgrade(ctx context.Context, userID string) (domain.ComputeReset, error) {
	check, err := c.CheckUpgrade(ctx, userID)
	if err != nil || !check.UpgradeAvailable {
		return domain.ComputeReset{}, err
	}
	return c.Reset(ctx, userID)
}
