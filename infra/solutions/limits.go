package solutions

import (
	"fmt"

	"everloop/domain"
	"everloop/domain/toolserver"
)

// Most that a solution may bring, as a session's own setup.
const (
	maxAgents      = 50
	maxPermissions = 200
)

// withinLimits holds the numbers of a solution to the bounds of the same fields
// of a session's own setup. The error names the first field that is beyond.
func (f *file) withinLimits() error {
	var wrong error
	within(&wrong, "max_steps", f.MaxSteps, 1, domain.MostSteps)
	within(&wrong, "stuck_after", f.StuckAfter, 3, 1000)

	if b := f.Budget; b != nil {
		within(&wrong, "budget.max_tokens", b.MaxTokens, 1, 1_000_000_000_000)
		within(&wrong, "budget.max_cost", b.MaxCost, 0, 1_000_000_000)
	}

	if c := f.Compaction; c != nil {
		within(&wrong, "compaction.threshold_pct", c.ThresholdPct, 10, 95)
		within(&wrong, "compaction.keep_last", c.KeepLast, 0, 200)
	}

	for i, m := range f.Servers {
		within(&wrong, fmt.Sprintf("mcp_servers[%d].timeout_s", i), m.TimeoutS, 1, 3600)
	}

	atMost(&wrong, "agents", len(f.Agents), maxAgents)
	atMost(&wrong, "permissions", len(f.Permissions), maxPermissions)
	atMost(&wrong, "mcp_servers", len(f.Servers), toolserver.MaxOfSession)

	return wrong
}

// within asks for a number from least to most, if there is one.
func within[N int | int64 | float64](wrong *error, field string, given *N, least, most N) {
	if *wrong == nil && given != nil && !(*given >= least && *given <= most) { // not a number is neither
		*wrong = fmt.Errorf("%s must be from %v to %v, not %v", field, least, most, *given)
	}
}

func atMost(wrong *error, field string, count, most int) {
	if *wrong == nil && count > most {
		*wrong = fmt.Errorf("%s has %d entries, at most %d are taken", field, count, most)
	}
}
