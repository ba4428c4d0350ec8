package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"everloop/infra/sandbox"
)

// tools starts the sandbox like a worker, and checks for programs that agents use in it.
func tools(ctx context.Context, s Settings) []Check {
	const name = "sandbox"

	config := s.Sandbox
	config.WarmMax = -1

	box, err := sandbox.New(ctx, config)
	if err != nil {
		first, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "sandbox: "), "\n")

		if config.Containers != nil {
			return one(
				name,
				Fail,
				first,
				"SANDBOX=container needs an engine that runs as root at DOCKER_HOST and an image that it has as "+
					"SANDBOX_IMAGE; unset SANDBOX for namespaces",
			)
		}

		return one(name, Fail, first, "level 2 needs user namespaces (user.max_user_namespaces above 0, "+
			"kernel.unprivileged_userns_clone=1, "+
			"kernel.apparmor_restrict_unprivileged_userns=0; in a container, security_opt seccomp=unconfined and systempaths=unconfined); "+
			"SANDBOX_MIN_LEVEL=1 permits Landlock")
	}
	defer box.Close()

	checks := []Check{level(box), limits(box), users(box)}

	return append(checks, ripgrep(ctx, box), browserTools(ctx, box, s))
}

func level(box *sandbox.Sandbox) Check {
	check := Check{Name: "sandbox", State: OK, Detail: box.Describe()}
	switch box.Level() {
	case sandbox.Unconfined:
		check.State, check.Hint = Warn, "tools can do whatever the service can: set SANDBOX_MIN_LEVEL to 1 or 2"
	case sandbox.Landlocked:
		check.State, check.Hint = Warn, "tools see the processes of the host: permit user namespaces for level 2"
	case sandbox.Namespaced:
	}

	return check
}

// limits reports how the limits of commands are enforced.
func limits(box *sandbox.Sandbox) Check {
	check := Check{Name: "limits of commands", State: OK, Detail: "held by control groups"}
	if box.Measured() {
		check.State = Warn
		check.Detail = "memory and processes are measured ten times a second: no control group for both may be made here"
		check.Hint = "start as root, or delegate a group (systemd: Delegate=memory pids cpu), and the kernel holds them"
	}

	return check
}

func users(box *sandbox.Sandbox) Check {
	check := Check{Name: "user separation", State: OK, Detail: "each session has its own user"}
	if !box.DedicatedUsers() {
		check.State, check.Detail = Info, "all sessions share the service's user"
		if os.Geteuid() != 0 {
			check.Hint = "start as root for a user each"
		}
	}

	return check
}

// ripgrep checks for ripgrep, which makes searches fast; the agent's own search needs it in the
// sandbox.
func ripgrep(ctx context.Context, box *sandbox.Sandbox) Check {
	version, err := inSandbox(ctx, box, "rg", "--version")
	if err != nil {
		return Check{Name: "ripgrep", State: Warn, Detail: err.Error(), Hint: "install it (ripgrep) for fast searches"}
	}

	first, _, _ := strings.Cut(version, "\n")

	return Check{Name: "ripgrep", State: OK, Detail: first}
}

// inSandbox returns the output of a program in a sandbox.
func inSandbox(ctx context.Context, box *sandbox.Sandbox, argv ...string) (string, error) {
	dir, err := os.MkdirTemp("", "everloop-doctor-")
	if err != nil {
		return "", fmt.Errorf("could not be looked for: %w", err)
	}
	defer os.RemoveAll(dir)

	if box.DedicatedUsers() {
		if err := os.Chown(dir, box.ProbeUID(), box.ProbeUID()); err != nil {
			return "", fmt.Errorf("could not be looked for: %w", err)
		}
	}

	var out, complaint strings.Builder

	result, err := box.Run(ctx, sandbox.Spec{
		Argv: argv, Workspace: dir, UID: box.ProbeUID(), Stdout: &out, Stderr: &complaint, Limits: sandbox.Limits{Wall: versionTime},
	})

	switch {
	case err != nil:
		return "", fmt.Errorf("could not be looked for: %w", err)
	case result.Cause == sandbox.NotStarted:
		return "", errors.New("not found in the sandbox")
	case !result.Success():
		return "", fmt.Errorf("it failed in the sandbox (%s, exit code %d)%s", result.Cause, result.ExitCode, said(complaint.String()))
	}

	return out.String(), nil
}

// maxSaid bounds the quoted error output of a program, in bytes.
const maxSaid = 300

// said returns a program's error output as the end of a sentence.
func said(complaint string) string {
	words := strings.Join(strings.Fields(strings.ToValidUTF8(complaint, "")), " ")
	if words == "" {
		return ""
	}

	return ": " + words[:min(len(words), maxSaid)]
}

// git checks for git, which hosting skills requires; everything else works without it.
func git(ctx context.Context, _ Settings) []Check {
	out, err := exec.CommandContext(ctx, "git", "--version").Output()
	if err != nil {
		return one("git", Info, "not found", "install it to host skills as git repositories")
	}

	return one("git", Info, strings.TrimSpace(string(out)), "")
}

// versionTime bounds running a program for its version.
const versionTime = 10 * time.Second

// earliest is a time that has passed: a clock before it was never set.
var earliest = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// clock checks with the kernel whether the clock is synchronised: tokens, schedules and the
// order of events depend on it.
func clock(_ context.Context, _ Settings) []Check {
	now := time.Now().UTC()

	detail := now.Format("2006-01-02 15:04:05 UTC")
	if now.Before(earliest) {
		return one("clock", Fail, detail, "set it: the order of events and the validity of tokens depend on it")
	}

	var timex unix.Timex

	state, err := unix.Adjtimex(&timex)
	if err != nil {
		return one("clock", OK, detail, "")
	}

	const unsynchronised = 5 // TIME_ERROR
	if state == unsynchronised {
		return one("clock", Info, detail+", not synchronised as far as the kernel knows", "run an NTP client on the host")
	}

	return one("clock", OK, detail+", synchronised", "")
}
