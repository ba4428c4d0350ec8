// Package agents holds the tool Agent, and the types of sub-agents that a session has:
// the built-in ones, those of its profile and those of files in its workspace.
package agents

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"

	"everloop/activities/tools"
	"everloop/domain"
)

//go:embed agent.md
var agentDescription string

// Agent names the tool whose calls are sub-agents.
const Agent = "Agent"

// AgentArguments are the arguments of an Agent call.
type AgentArguments struct {
	Description string `json:"description" jsonschema:"What it does, in three to five words, for the user" limits:"1..1000"`
	Prompt      string `json:"prompt" jsonschema:"The whole task: the sub-agent sees nothing else" limits:"1..200000"`
	Type        string `json:"subagent_type,omitempty" jsonschema:"A type of this session; general-purpose when left out" limits:"..200"`
	Model       string `json:"model,omitempty" jsonschema:"Another model for it" limits:"..200"`
	Background  bool   `json:"run_in_background,omitempty" jsonschema:"Start it and return at once"`
}

// ParseAgent reads the arguments of an Agent call that the registry has
// admitted.
func ParseAgent(arguments json.RawMessage) (AgentArguments, error) {
	in, err := tools.Decode[AgentArguments](arguments)

	in.Description, in.Prompt = tools.OneLine(tools.Clean(in.Description)), tools.Clean(in.Prompt)
	if in.Type == "" {
		in.Type = GeneralPurpose
	}

	return in, err
}

type agent struct{ background tools.Background }

// NewAgent returns a new tool. A sub-agent is no work for a tools' worker: the run of
// the chat carries it out. Only one in the background is started by Run.
func NewAgent(d tools.Deps) tools.Tool {
	a := agent{d.Background}

	return tools.Tool{
		Name: Agent, DisplayName: "Agent",
		Spec: domain.ToolSpec{
			Name: Agent, Description: agentDescription + listed(builtInAgents, nil), Parameters: tools.Parameters[AgentArguments](),
		},
		Acts:      true,
		Executing: true,
		Run:       a.start,
		Check: func(arguments json.RawMessage) string {
			in, err := ParseAgent(arguments)
			switch {
			case err != nil:
				return ""
			case in.Description == "":
				return "description is empty"
			case tools.OneLine(in.Prompt) == "":
				return "prompt is empty"
			}

			return ""
		},
		Summary: tools.SummaryBy("description"),

		RunSummary: tools.SummaryByFirst("description"),
	}
}

// start starts a sub-agent in the background.
func (a agent) start(ctx context.Context, c *tools.Call) (tools.Result, error) {
	in, err := ParseAgent(c.Arguments)
	if err != nil {
		return tools.Result{}, err
	}

	if a.background == nil || !in.Background {
		return *tools.Failed("A sub-agent in the background cannot be started here."), nil
	}

	task, err := a.background.StartAgent(ctx, tools.NewAgentTask{
		SessionID: c.Session.ID, ChatID: c.ChatID, ToolCallID: c.ID, Title: tools.Cut(in.Description, 200),
	})
	if words, ok := tools.Refusal(err); err != nil && ok {
		return *tools.Failed("The sub-agent was not started: %s", tools.Sentence(words)), nil
	}

	if err != nil {
		return *tools.Failed("The sub-agent could not be started."), err
	}

	return tools.Result{Output: fmt.Sprintf(
		"The sub-agent works in the background as task %s. Its result is delivered to you when it is ready.", task.TaskID)}, nil
}
