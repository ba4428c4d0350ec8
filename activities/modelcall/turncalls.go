package modelcall

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"everloop/activities/contract"
	"everloop/activities/tools"
	"everloop/domain"
	"everloop/internal/durable"
)

// maxTurnCalls bounds the tool calls of one reply that are carried out: what the
// run is given of them must fit into one payload.
const maxTurnCalls = 64

// callsRoom is what of a payload the calls of a turn may take, in bytes.
const callsRoom = durable.MaxPayload - 2<<10

// whyNot returns why the i-th call of a reply is not carried out; empty: it is.
func whyNot(i int, stuck string) string {
	switch {
	case stuck != "":
		return stuck
	case i >= maxTurnCalls:
		return fmt.Sprintf("one reply may make %d tool calls, and this was call %d. Make it again in your next reply", maxTurnCalls, i+1)
	default:
		return ""
	}
}

// scheduled gives the calls that the run has to schedule. What operators read of
// them is shortened until all of them fit into the run's history.
func (c *Caller) scheduled(
	ctx context.Context, session domain.Session, set *tools.Toolset, calls []domain.PlannedCall,
) []contract.ToolCall {
	calls = slices.DeleteFunc(slices.Clone(calls), func(call domain.PlannedCall) bool {
		return call.Questions != nil || call.Settled != nil || call.Guarded
	})
	summary := c.runSummaries(ctx, session, set, calls)

	var out []contract.ToolCall
	for _, call := range calls {
		out = append(out, contract.ToolCall{ID: call.ID, Name: call.ToolName, Summary: summary(call), Fork: forkOf(call)})
	}

	for most := 128; most > 0 && encodedSize(out) > callsRoom; most /= 2 {
		for i := range out {
			out[i].Summary = firstBytes(out[i].Summary, most)
		}
	}

	return out
}

// runSummaries gives what names a call in the durable engine. The values of the
// session's environment are masked; where they cannot be read, and by setting, the
// tool's name is all.
func (c *Caller) runSummaries(
	ctx context.Context, session domain.Session, set *tools.Toolset, calls []domain.PlannedCall,
) func(domain.PlannedCall) string {
	name := func(call domain.PlannedCall) string { return set.RunSummary(call.ToolName, "", nil) }

	speaks := func(call domain.PlannedCall) bool { return set.RunText(call.ToolName, call.Arguments) != "" }
	if c.Plans.SummaryNames || !slices.ContainsFunc(calls, speaks) {
		return name
	}

	env, err := c.Plans.Env(ctx, session)
	if err != nil {
		return name
	}

	values := slices.Collect(maps.Values(env))

	return func(call domain.PlannedCall) string { return set.RunSummary(call.ToolName, call.Arguments, values) }
}

func encodedSize(calls []contract.ToolCall) int {
	raw, err := json.Marshal(calls)
	if err != nil {
		return 0 // encoding the result says so
	}

	return len(raw)
}

// firstBytes gives the characters within the first n bytes of a text.
func firstBytes(text string, n int) string {
	if len(text) <= n {
		return text
	}

	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}

	return text[:n]
}
