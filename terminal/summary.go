package terminal

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// mainArguments are the names of arguments that say in a line what a call does; the
// first that is present counts. Tools of the service share these names, so that a new
// one needs no entry here.
var mainArguments = []string{
	"subject", "task_id", "title", "description", "command", "file_path", "pattern", "url", "action", "query", "name", "message",
	"prompt",
}

// summarize says in one line what a call does. Arguments of tool servers, and those
// without a main argument, are shown as they are.
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

// duration is written as people say it.
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
