// Package compute shows and resets the compute environment of a user: what runs
// beside the chats of all of the user's sessions. It knows neither sandboxes nor
// workspaces.
package compute

import (
	"context"
	"errors"
	"fmt"

	"everloop/domain"
)

// Config is what New needs.
type Config struct {
	Store Store
	Tasks interface {
		Stop(ctx context.Context, sessionID domain.SessionID, taskID string) (domain.BackgroundTask, error)
	}
	ToolServers interface {
		UserDeleted(ctx context.Context, userID string) error // ends them; they start again when they are used
	}
	Version string // of the environment that commands get now
}

// Service shows and resets compute environments: the sandboxes of all of a user's
// sessions. A sandbox is made for each command, so that only what outlives
// its command can be old: commands in the background, tool servers, and what the
// service remembers of files that were read. Workspaces are never touched.
type Service struct {
	cfg Config
}

// New checks the configuration.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Tasks == nil || cfg.ToolServers == nil || cfg.Version == "" {
		return nil, errors.New("compute: the configuration needs Records, Tasks, ToolServers and Version")
	}

	return &Service{cfg: cfg}, nil
}

// Store reads and writes the state of compute environments.
type Store interface {
	ComputeWork(ctx context.Context, userID string) (domain.ComputeWork, error)
	ForgetReads(ctx context.Context, userID string) (int, error)
	ComputeVersion(ctx context.Context, userID, current string) (string, error)
	SetComputeVersion(ctx context.Context, userID, version string) error
}

// Reset ends the user's background processes and forgets which files were read. While a
// chat runs it fails with compute_env_busy, because that would end commands of the chat.
func (s *Service) Reset(ctx context.Context, userID string) (done domain.ComputeReset, err error) {
	work, err := s.cfg.Store.ComputeWork(ctx, userID)
	if err != nil {
		return done, err
	}

	if work.Chats > 0 {
		return done, domain.Newf(domain.Conflict, "compute_env_busy", "chats run in %d of your sessions; stop them first, or wait for "+
			"their end", work.Chats)
	}

	for _, task := range work.Tasks {
		if _, err := s.cfg.Tasks.Stop(ctx, task.SessionID, task.TaskID); err != nil {
			return done, err
		}

		done.RemovedContainers++
	}

	if err := s.cfg.ToolServers.UserDeleted(ctx, userID); err != nil {
		return done, err
	}

	if done.ClearedMemo, err = s.cfg.Store.ForgetReads(ctx, userID); err != nil {
		return done, err
	}

	return done, s.cfg.Store.SetComputeVersion(ctx, userID, s.cfg.Version)
}

// CheckUpgrade compares the user's environment with the current one.
func (s *Service) CheckUpgrade(ctx context.Context, userID string) (domain.ComputeUpgrade, error) {
	version, err := s.cfg.Store.ComputeVersion(ctx, userID, s.cfg.Version)

	check := domain.ComputeUpgrade{
		UpgradeAvailable: version != s.cfg.Version, CurrentVersion: version, TargetVersion: s.cfg.Version,
		Reason: "the environment is up to date",
	}
	if check.UpgradeAvailable {
		check.Reason = fmt.Sprintf("commands now run on %s; background processes may still run on %s", s.cfg.Version, version)
	}

	return check, err
}

// Upgrade resets an environment of an older version; others stay as they are.
func (s *Service) Upgrade(ctx context.Context, userID string) (domain.ComputeReset, error) {
	check, err := s.CheckUpgrade(ctx, userID)
	if err != nil || !check.UpgradeAvailable {
		return domain.ComputeReset{}, err
	}

	return s.Reset(ctx, userID)
}
