package app

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"everloop/infra/sandbox"
	"everloop/infra/toolbox"
	"everloop/internal/release"
)

// inContainers is SANDBOX for a container for each command.
const inContainers = "container"

// hostImage names the environment of commands that see the programs of the host.
const hostImage = "host"

// kindSettings say what a sandbox is.
type kindSettings struct {
	Sandbox       string `default:"namespaces" enum:"namespaces,container" env:"SANDBOX" help:"What each command runs in: namespaces of this service, or a container of SANDBOX_IMAGE by the engine at SANDBOX_ENGINE."`
	SandboxEngine string `default:"/var/run/docker.sock" env:"SANDBOX_ENGINE" type:"path" help:"Socket of the container engine for SANDBOX=container."`
	SandboxImage  string `default:"host" env:"SANDBOX_IMAGE" help:"Image of the containers for SANDBOX=container; else a name of the environment of commands as clients see it, such as the container image of the workers."`
}

func (s kindSettings) check() error {
	if s.Sandbox == inContainers && s.SandboxImage == hostImage {
		return errors.New("SANDBOX_IMAGE must name an image that the container engine has, because SANDBOX is container")
	}

	return nil
}

// computeVersion is what the check for upgrades compares: the image that commands run
// in, or the service whose host they see.
func (s kindSettings) computeVersion() string {
	if s.Sandbox == inContainers {
		return s.SandboxImage
	}

	return release.Version
}

// boundSettings bound all commands of this machine together, and say as whom they run.
type boundSettings struct {
	TotalMemory  int64         `name:"sandbox-total-memory-bytes" env:"SANDBOX_TOTAL_MEMORY_BYTES" help:"Memory of all commands together; 0: three quarters of what the host, or the service's control group, has."`
	TotalProcs   int           `name:"sandbox-total-processes" env:"SANDBOX_TOTAL_PROCESSES" help:"Processes and threads of all commands together; 0: half of what the host, or the service's control group, permits."`
	CPUWeight    int           `name:"sandbox-cpu-weight" default:"100" env:"SANDBOX_CPU_WEIGHT" help:"Share of the processors that all commands together have beside the service when both want them, 1 to 10000; 100 is an equal share."`
	PerSession   int           `name:"session-commands" default:"32" env:"SESSION_COMMANDS" help:"Commands of one session that run at once on one worker, background tasks and tool servers among them; 0: no limit."`
	PerUser      int           `name:"user-commands" default:"64" env:"USER_COMMANDS" help:"Likewise for all sessions of one user; 0: no limit."`
	CommandWait  time.Duration `default:"1m" env:"COMMAND_WAIT" help:"How long a command waits when as many run as may, before the model gets the error that it did not run."`
	SandboxUsers int           `name:"sandbox-uid-base" default:"1900000000" env:"SANDBOX_UID_BASE" help:"Host users of new sessions are above this id, when the service is root; no range of /etc/subuid may reach there."`
}

// leastUserBase is above the users of people and of the system.
const leastUserBase = 100_000

const (
	maxWeight      = 10_000
	maxCommandWait = 10 * time.Minute
)

func (s boundSettings) check() error {
	var faults []error

	for _, n := range []struct {
		variable string
		value    int64
	}{
		{"SANDBOX_TOTAL_MEMORY_BYTES", s.TotalMemory},
		{"SANDBOX_TOTAL_PROCESSES", int64(s.TotalProcs)},
		{"SESSION_COMMANDS", int64(s.PerSession)},
		{"USER_COMMANDS", int64(s.PerUser)},
	} {
		if n.value < 0 {
			faults = append(faults, fmt.Errorf("%s must not be negative", n.variable))
		}
	}

	if s.CPUWeight < 1 || s.CPUWeight > maxWeight {
		faults = append(faults, fmt.Errorf("SANDBOX_CPU_WEIGHT must be from 1 to %d", maxWeight))
	}

	if s.CommandWait < 0 || s.CommandWait > maxCommandWait {
		faults = append(faults, fmt.Errorf("COMMAND_WAIT must be from 0s to %s", maxCommandWait))
	}

	if s.SandboxUsers < leastUserBase || s.SandboxUsers >= sandbox.LastUser {
		faults = append(faults, fmt.Errorf("SANDBOX_UID_BASE must be from %d to %d", leastUserBase, sandbox.LastUser-1))
	}

	return errors.Join(faults...)
}

// sandboxConfig is what the worker's sandbox must and may do.
func (s *settings) sandboxConfig() sandbox.Config {
	config := sandbox.Config{
		MinLevel: sandbox.Level(s.SandboxMinLevel), Unsafe: s.SandboxUnsafe, ReadOnly: s.shownDirs(), Private: s.PrivateDirs(s.DataDir),
		TotalMemory: s.TotalMemory, TotalProcesses: s.TotalProcs, CPUWeight: s.CPUWeight, UserBase: s.SandboxUsers, Reserve: s.Reserve(),
	}
	if s.Sandbox == inContainers {
		config.Containers = &sandbox.Containers{Engine: s.SandboxEngine, Image: s.SandboxImage, Dir: filepath.Join(s.DataDir, "sandbox")}
	}

	return config
}

func (s boundSettings) slots() *toolbox.Slots {
	return &toolbox.Slots{PerSession: s.PerSession, PerUser: s.PerUser, Wait: s.CommandWait}
}
