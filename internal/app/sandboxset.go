package app

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"everloop/internal/app/flags"

	"everloop/infra/sandbox"
	"everloop/infra/toolbox"
	"everloop/internal/release"
)

// inContainers is SANDBOX for a container for each command.
const inContainers = "container"

// unixSocket starts the address of a socket.
const unixSocket = "unix://"

// hostImage names the environment of commands that see the programs of the host.
const hostImage = "host"

// kindSettings say what a sandbox is.
type kindSettings struct {
	Sandbox       string `default:"namespaces" enum:"namespaces,container" env:"SANDBOX" help:"What each command runs in: namespaces of this service, or a container of SANDBOX_IMAGE by the engine at DOCKER_HOST."`
	SandboxEngine string `default:"unix:///var/run/docker.sock" env:"DOCKER_HOST" help:"Socket of the container engine for SANDBOX=container, as unix:///path."`
	SandboxImage  string `default:"host" env:"SANDBOX_IMAGE" help:"Image of the containers for SANDBOX=container; else a name of the environment of commands as clients see it, such as the container image of the workers."`
}

func (s kindSettings) check() error {
	if s.Sandbox == inContainers && !strings.HasPrefix(s.SandboxEngine, unixSocket) {
		return errors.New("DOCKER_HOST must be the socket of an engine on this machine, as unix:///var/run/docker.sock")
	}

	if s.Sandbox == inContainers && s.SandboxImage == hostImage {
		return errors.New("SANDBOX_IMAGE must name an image that the container engine has, because SANDBOX is container")
	}

	return nil
}

// computeVersion returns what the check for upgrades compares: the image that commands run
// in, or the service whose host they see.
func (s kindSettings) computeVersion() string {
	if s.Sandbox == inContainers {
		return s.SandboxImage
	}

	return release.Version
}

// boundSettings bound all commands of this machine together, and say as whom they run.
type boundSettings struct {
	TotalMemory int64 `name:"sandbox-total-memory-bytes" env:"SANDBOX_TOTAL_MEMORY_BYTES" help:"Memory of all commands together; 0: three quarters of what the host, or the service's control group, has."`
	TotalProcs  int   `name:"sandbox-total-processes" env:"SANDBOX_TOTAL_PROCESSES" help:"Processes and threads of all commands together; 0: half of what the host, or the service's control group, permits."`
}

// Bounds of the commands of one worker. Background tasks and tool servers count as commands.
const (
	sessionCommands = 32          // of one session
	userCommands    = 64          // of all sessions of one user
	commandWait     = time.Minute // how long a command waits for a slot before its call fails as not run
)

func (s boundSettings) check() error {
	var faults []error

	for _, n := range []struct {
		variable string
		value    int64
	}{
		{"SANDBOX_TOTAL_MEMORY_BYTES", s.TotalMemory},
		{"SANDBOX_TOTAL_PROCESSES", int64(s.TotalProcs)},
	} {
		if n.value < 0 {
			faults = append(faults, fmt.Errorf("%s must not be negative", n.variable))
		}
	}

	return errors.Join(faults...)
}

// sandboxConfig returns what the worker's sandbox must and may do.
func (s *settings) sandboxConfig() sandbox.Config {
	config := sandbox.Config{
		MinLevel: sandbox.Level(
			s.SandboxMinLevel,
		),
		Unsafe:         s.SandboxMinLevel == 0,
		ReadOnly:       s.shownDirs(),
		Private:        s.PrivateDirs(s.DataDir),
		TotalMemory:    s.TotalMemory,
		TotalProcesses: s.TotalProcs,
		Reserve:        flags.Reserve,
	}
	if s.Sandbox == inContainers {
		config.Containers = &sandbox.Containers{
			Engine: strings.TrimPrefix(s.SandboxEngine, unixSocket),
			Image:  s.SandboxImage,
			Dir:    filepath.Join(s.DataDir, "sandbox"),
		}
	}

	return config
}

func slots() *toolbox.Slots {
	return &toolbox.Slots{PerSession: sessionCommands, PerUser: userCommands, Wait: commandWait}
}
