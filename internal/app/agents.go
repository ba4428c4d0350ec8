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
	AgentRuntime     string `env:"AGENT_RUNTIME" help:"Runtime of agent instances that the worker announces, as provider/name, such as gpu/room-1; the built-in one when unset."`
	AgentRuntimeMode string `default:"local" enum:"local,cloud" env:"AGENT_RUNTIME_MODE" help:"Where that runtime works: local or cloud."`
}

// maxRuntimeName bounds the provider and the name of a runtime.
const maxRuntimeName = 256

func (s runtimeSettings) check() error {
	if s.AgentRuntime == "" {
		return nil
	}

	provider, name, found := strings.Cut(s.AgentRuntime, "/")
	if !found || provider == "" || name == "" || len(provider) > maxRuntimeName || len(name) > maxRuntimeName {
		return errors.New("AGENT_RUNTIME must have the form provider/name")
	}

	if provider == prodagent.BuiltinRuntime {
		return errors.New("AGENT_RUNTIME must not have the provider builtin: leave the variable out")
	}

	return nil
}

// workerReport is what the worker of this process announces, without its load.
func (s runtimeSettings) workerReport() prodagent.WorkerReport {
	report := prodagent.WorkerReport{
		ID: domain.NewID(), Version: release.Version, Slots: worker.MaxActivities,
		Device: prodagent.RuntimeDevice{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0)},
	}
	if s.AgentRuntime != "" {
		report.Provider, report.Name, _ = strings.Cut(s.AgentRuntime, "/")
		report.Mode = prodagent.RuntimeMode(s.AgentRuntimeMode)
	}

	return report
}
