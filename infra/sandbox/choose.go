//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// choose tries the levels, strongest first.
func (s *Sandbox) choose(ctx context.Context) error {
	users := []bool{false}

	if os.Geteuid() == 0 && !s.config.SharedUser {
		if err := checkSubordinate(s.config.UserBase); err != nil {
			return err
		}

		users = []bool{true, false}
	}

	if s.containers != nil {
		return s.chooseContainers(ctx, users[0])
	}

	var refused []error

	for level := s.config.MaxLevel; level >= s.config.MinLevel; level-- {
		for _, dedicated := range users {
			s.level, s.dedicated = level, dedicated

			err := s.probe(ctx)
			if err == nil {
				return nil
			}

			if ctx.Err() != nil {
				return ctx.Err()
			}

			refused = append(refused, fmt.Errorf("level %s: %w", level, err))
		}
	}

	return fmt.Errorf("sandbox: commands of agents cannot be confined on this host as required (level %s or stronger).\n"+
		"Level 2 needs user namespaces: sysctl user.max_user_namespaces above 0, kernel.unprivileged_userns_clone=1 and "+
		"kernel.apparmor_restrict_unprivileged_userns=0 where these exist; in a container, security_opt seccomp=unconfined "+
		"and systempaths=unconfined. Level 1 needs Landlock (Linux 6.12) and must be permitted explicitly.\n%w",
		s.config.MinLevel, errors.Join(refused...))
}

// chooseContainers has no weaker way to fall back to.
func (s *Sandbox) chooseContainers(ctx context.Context, dedicated bool) error {
	s.level, s.dedicated = Namespaced, dedicated
	if !dedicated && os.Geteuid() == 0 {
		return errors.New("sandbox: commands cannot run as root in a container: sessions need users of their own")
	}

	return s.probe(ctx)
}

// probe runs a command that looks around.
func (s *Sandbox) probe(ctx context.Context) error {
	dir, err := os.MkdirTemp(s.scratch, "probe-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()

	if s.dedicated {
		if err := os.Chown(dir, s.ProbeUID(), s.ProbeUID()); err != nil {
			return err
		}
	}

	var out limitedBuffer

	spec := Spec{
		Argv: []string{"/bin/sh", "-c", "echo works >probe && cat probe"}, Workspace: dir, UID: s.ProbeUID(),
		Limits: Limits{Wall: 10 * time.Second}, Stdout: &out, Stderr: &out,
	}

	process, err := s.start(ctx, spec, false)
	if err != nil {
		return err
	}

	result, err := process.Wait()
	if err != nil {
		return err
	}

	if !result.Success() || out.String() != "works\n" {
		return fmt.Errorf("the trial command ended with %s, code %d: %q %s", result.Cause, result.ExitCode, out.String(), result.Detail)
	}

	return nil
}
