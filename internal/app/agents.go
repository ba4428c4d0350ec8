package app

import (
	"errors"
	"runtime"
	"strings"

	"everloop/domain"
	"everloop/domain/prodagent"
	"everloop/internal/release"
	"everloop/worker"
)

// runtimeSettings say which runtime of agent instances the workers of this process are.
type runtimeSettings struct {
	AgentRuntime string `env:"AGENT_RUNTIME" help:"Runtime of agent instances that the worker announces, as provider/name, such as gpu/room-1, or cloud:provider/name where it works in a cloud; the built-in one when unset."`
}

// inCloud starts the name of a runtime that works in a cloud.
const inCloud = "cloud:"

// maxRuntimeName bounds the provider and the name of a runtime.
const maxRuntimeName = 256

func (s runtimeSettings) check() error {
	if s.AgentRuntime == "" {
		return nil
	}

	provider, name, found := strings.Cut(strings.TrimPrefix(s.AgentRuntime, inCloud), "/")
	if !found || provider == "" || name == "" || len(provider) > maxRuntimeName || len(name) > maxRuntimeName {
		return errors.New("AGENT_RUNTIME must have the form provider/name or cloud:provider/name")
	}

	if provider == prodagent.BuiltinRuntime {
		return errors.New("AGENT_RUNTIME must not have the provider builtin: leave the flag out")
	}

	return nil
}

// workerReport returns what the worker of this process announces, without its load.
func (s runtimeSettings) workerReport() prodagent.WorkerReport {
	report := prodagent.WorkerReport{
		ID: domain.NewID(), Version: release.Version, Slots: worker.MaxActivities,
		Device: prodagent.RuntimeDevice{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0)},
	}
	if s.AgentRuntime != "" {
		name, cloud := strings.CutPrefix(s.AgentRuntime, inCloud)
		report.Provider, report.Name, _ = strings.Cut(name, "/")

		report.Mode = prodagent.RuntimeLocal
		if cloud {
			report.Mode = prodagent.RuntimeCloud
		}
	}

	return report
}
