// Package doctor checks whether Everloop can start on a machine: one check a line, with a hint
// where something must be fixed. It makes no lasting changes. It must not depend on sessions,
// chats or the wiring of roles; its input is the settings.
package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"everloop/domain"
	"everloop/infra/browser"
	"everloop/infra/sandbox"
	"everloop/internal/diskspace"
)

// State is the outcome of a check.
type State string

// The outcomes of a check: only Fail prevents a start of Everloop.
const (
	OK   State = "ok"
	Info State = "info"
	Warn State = "warn"
	Fail State = "fail"
)

// Check is one line of the report.
type Check struct {
	Name   string `json:"name"`
	State  State  `json:"state"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"` // what to fix, and how
}

// Settings are the settings of a start.
type Settings struct {
	Faults    []string // of the settings themselves, found when they were read
	DataDir   string   // absolute
	Reserve   diskspace.Reserve
	Addresses []Address
	Engines   []Engine

	ModelURL string // empty: the demo model
	ModelKey string
	Model    string

	ContextWindow int64 // of models without a window from their server

	Sandbox sandbox.Config
	Browser browser.Tools
}

// Engine checks one of the servers that a start would use or start.
type Engine func(ctx context.Context) []Check

// Address is a listen address and the variable that changes it.
type Address struct {
	Variable string
	Addr     string
}

// checkTime bounds one check.
const checkTime = 20 * time.Second

// Run runs all checks concurrently and returns them in a fixed order.
func Run(ctx context.Context, s Settings) []Check {
	probes := []func(context.Context, Settings) []Check{settings, dataDir, workspaces}
	for _, engine := range s.Engines {
		probes = append(probes, func(ctx context.Context, _ Settings) []Check { return engine(ctx) })
	}

	probes = append(probes, ports, model, tools, git, clock)
	results := make([][]Check, len(probes))

	var all sync.WaitGroup
	for i, probe := range probes {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, checkTime)
			defer cancel()

			results[i] = probe(ctx, s)
		})
	}

	all.Wait()

	var checks []Check
	for _, result := range results {
		checks = append(checks, result...)
	}

	return checks
}

// CheckOf converts the result of a probe to a line of the report.
func CheckOf(name string, result domain.CheckResult) Check {
	state := OK

	switch result.Status {
	case domain.CheckFail:
		state = Fail
	case domain.CheckWarn:
		state = Warn
	case domain.CheckSkipped:
		state = Info
	case domain.CheckOK:
	}

	return Check{Name: name, State: state, Detail: result.Message, Hint: result.Hint}
}

// Failed reports whether something must be fixed before a start.
func Failed(checks []Check) bool {
	for _, c := range checks {
		if c.State == Fail {
			return true
		}
	}

	return false
}

// WriteText writes the report for people; with color, outcomes are coloured.
func WriteText(w io.Writer, checks []Check, color bool) error {
	colors := map[State]string{OK: "32", Info: "2", Warn: "33", Fail: "31"}

	var out strings.Builder

	counts := map[State]int{}
	for _, c := range checks {
		counts[c.State]++

		state := fmt.Sprintf("%-4s", c.State)
		if color {
			state = "\x1b[" + colors[c.State] + "m" + state + "\x1b[0m"
		}

		fmt.Fprintf(&out, "%s  %-16s %s", state, c.Name, flat(c.Detail))

		if c.Hint != "" {
			out.WriteString(": " + flat(c.Hint))
		}

		out.WriteByte('\n')
	}

	switch {
	case counts[Fail] > 0:
		fmt.Fprintf(&out, "\n%d to fix before a start, %d to know.\n", counts[Fail], counts[Warn])
	case counts[Warn] > 0:
		fmt.Fprintf(&out, "\nReady to start; %d to know.\n", counts[Warn])
	default:
		out.WriteString("\nReady to start.\n")
	}

	_, err := io.WriteString(w, out.String())

	return err
}

// flat joins a text to one line.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

// WriteJSON writes the report for programs.
func WriteJSON(w io.Writer, checks []Check) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)

	return encoder.Encode(map[string]any{"ok": !Failed(checks), "checks": checks})
}

func one(name string, state State, detail, hint string) []Check {
	return []Check{{Name: name, State: state, Detail: detail, Hint: hint}}
}

func settings(_ context.Context, s Settings) []Check {
	var checks []Check
	for _, fault := range s.Faults {
		checks = append(checks, Check{Name: "settings", State: Fail, Detail: fault})
	}

	if checks == nil {
		return one("settings", OK, "no faults", "")
	}

	return checks
}
