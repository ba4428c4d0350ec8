package domain

import (
	"encoding/json"
	"slices"
)

// StuckAfter is how often in a row a loop can make the same tool calls with the same results
// before its chat is ended, unless the session sets another limit: well above what polling
// takes.
const StuckAfter = 60

// Repeats returns how often in a row, up to the last of the turns, a loop has made exactly
// these calls with the same results each time.
func Repeats(turns []TranscriptTurn, calls []RequestedCall) int {
	asked := make([]string, len(calls))
	for i, call := range calls {
		asked[i] = call.Name + " " + sameJSON(call.Arguments)
	}

	n := 0

	var results []string

	for _, turn := range slices.Backward(turns) {
		if turn.Role != RoleAssistant || len(turn.Calls) != len(calls) {
			break
		}

		got := make([]string, len(calls))

		for i, call := range turn.Calls {
			if call.ToolName+" "+sameJSON(call.Arguments) != asked[i] {
				return n
			}

			got[i] = call.Result
		}

		if results != nil && !slices.Equal(results, got) {
			break
		}

		results = got
		n++
	}

	return n
}

// sameJSON returns a canonical form: equal JSON texts have equal results.
func sameJSON(text string) string {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}

	out, err := json.Marshal(v)
	if err != nil {
		return text
	}

	return string(out)
}
