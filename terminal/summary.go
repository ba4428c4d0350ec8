package terminal

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// mainArguments are the arguments that describe a call, in order of preference. The service's
// tools share these names, so a new tool needs no entry.
var mainArguments = []string{
	"subject", "task_id", "title", "description", "command", "file_path", "pattern", "url", "action", "query", "name", "message",
	"prompt",
}

// summarize describes a call. It returns all arguments for calls of tool servers and for calls
// without a main argument.
func summarize(call *toolCall) string {
	var arguments map[string]any
	if json.Unmarshal([]byte(call.Arguments), &arguments) != nil {
		return strings.TrimSpace(call.Arguments)
	}

	if len(arguments) == 0 {
		return ""
	}

	if strings.HasPrefix(call.Tool, "mcp__") {
		return call.Arguments
	}

	for _, name := range mainArguments {
		if text, ok := arguments[name].(string); ok && strings.TrimSpace(text) != "" {
			return text
		}
	}

	return call.Arguments
}

// planStep is one step of a SubmitPlan call.
type planStep struct {
	Title  string `json:"title"`
	Detail string `json:"detail"`
}

func planSteps(call *toolCall) []planStep {
	var plan struct {
		Steps []planStep `json:"steps"`
	}
	if call.Tool != "SubmitPlan" || json.Unmarshal([]byte(call.Arguments), &plan) != nil {
		return nil
	}
	return plan.Steps
}

// duration formats milliseconds.
func duration(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", ms)
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	default:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
}
