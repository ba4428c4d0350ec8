package terminal

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// mainArguments names, by tool, the arguments that say in a line what a call does; the
// first that is present counts.
var mainArguments = map[string][]string{
	"Bash":       {"description", "command"},
	"Read":       {"file_path"},
	"Write":      {"file_path"},
	"Edit":       {"file_path"},
	"Glob":       {"pattern"},
	"Grep":       {"pattern"},
	"WebFetch":   {"url"},
	"WebSearch":  {"query"},
	"Agent":      {"description", "prompt"},
	"Skill":      {"name"},
	"TaskCreate": {"subject", "task_id"},
	"Memory":     {"action"},
	"SubmitPlan": {"title"},
	"EditDAG":    {"message"},

	"EditArchitecture": {"message"},
}

// summarize says in one line what a call does; arguments of tools that are not
// known are shown as they are.
func summarize(call *toolCall) string {
	var arguments map[string]any
	if json.Unmarshal([]byte(call.Arguments), &arguments) != nil {
		return strings.TrimSpace(call.Arguments)
	}

	for _, name := range mainArguments[call.Tool] {
		if text, ok := arguments[name].(string); ok && strings.TrimSpace(text) != "" {
			return text
		}
	}

	if len(arguments) == 0 {
		return ""
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
