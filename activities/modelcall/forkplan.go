package modelcall

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"everloop/activities/contract"
	"everloop/activities/tools"
	"everloop/activities/tools/agents"
	"everloop/activities/tools/questions"
	"everloop/domain"
)

// forkPrompt is the beginning of every sub-agent's instructions.
const forkPrompt = "You are a sub-agent: another agent has given you one task, which is the first message. What you write on the way " +
	"is not read. Your last message is the result that the other agent gets, so make it complete by itself: what you found or did, " +
	"where, and what is left open."

// planFork reserves a sub-agent for an Agent call, or refuses the call with the
// reason.
func (m *modelCall) planFork(ctx context.Context, call *domain.PlannedCall, arguments json.RawMessage) {
	fork, refusal := m.newFork(ctx, call.ID, arguments)
	if refusal != "" {
		call.Settled = &domain.Settlement{Status: domain.CallError, Result: refusal}
		return
	}

	call.Fork = fork
}

func (m *modelCall) newFork(ctx context.Context, callID string, arguments json.RawMessage) (fork *domain.NewFork, refusal string) {
	in, err := agents.ParseAgent(arguments)
	if err != nil {
		return nil, "The arguments of Agent could not be read."
	}

	limits := m.Plans.ForkLimits
	if m.turn.Loop.Depth >= limits.Depth {
		return nil, fmt.Sprintf(
			"No sub-agent was started: they can be nested %d deep, and this is that deep already. Do the task yourself.", limits.Depth,
		)
	}

	agent, refused := m.Plans.Agents.Type(ctx, m.scope, in.Type)
	if refused != nil {
		return nil, refused.Output
	}

	fork = &domain.NewFork{
		AgentType: agent.Name, Description: in.Description, Prompt: in.Prompt,
		Instructions: strings.TrimSpace(forkPrompt + "\n\n" + agent.Prompt), Tools: m.withinOwn(agent.Tools),
		Depth: m.turn.Loop.Depth + 1, MaxSteps: limits.Steps, Time: limits.Time,
		Background: in.Background, TaskID: m.turn.Loop.TaskID, Model: m.turn.Loop.Model,
	}
	if in.Background {
		fork.TaskID = tools.BackgroundTaskID(callID)
	}

	if model := domain.CleanText(cmp.Or(in.Model, agent.Model)); model != "" {
		if refusal := m.refusedModel(ctx, model, agent, in.Model != ""); refusal != "" {
			return nil, refusal
		}

		fork.Model = &model
	}

	return fork, ""
}

// withinOwn returns a sub-agent no tool that the one who calls it does not have.
func (m *modelCall) withinOwn(names []string) []string {
	if m.turn.Loop.Only == nil {
		return names
	}

	if names == nil {
		return m.turn.Loop.Only
	}

	within := []string{}

	for _, name := range names {
		for _, own := range m.turn.Loop.Only {
			if name == own {
				within = append(within, name)
			}
		}
	}

	return within
}

// refusedModel returns why a sub-agent cannot take a model. Empty: it can, or the model
// call itself reports the fault.
func (m *modelCall) refusedModel(ctx context.Context, name string, agent domain.AgentType, requested bool) string {
	model, err := m.Models.Resolve(ctx, name)

	switch {
	case domain.HasCode(err, domain.CodeUnknownModel):
		return m.unknownModel(ctx, name)
	case err != nil:
		return ""
	case !requested && m.setUp(agent), m.modelAllowed(ctx, model):
		return ""
	default:
		return fmt.Sprintf("The model %q is not allowed for sub-agents here: it costs more than yours, or the session does not list it. "+
			"Call Agent with \"model\": %q.", name, m.model.ID)
	}
}

// setUp reports whether a person set up the type with its model, in the session or its
// solution. Types of the workspace can be written by the agent itself.
func (m *modelCall) setUp(agent domain.AgentType) bool {
	return slices.ContainsFunc(m.scope.Profile.Agents, func(known domain.AgentType) bool {
		return known.Name == agent.Name && known.Model == agent.Model
	})
}

// modelAllowed reports whether sub-agents can take a model: that of their caller, one that
// the session lists, or without a list, one that costs no more. Where no user watches, only
// that of the caller.
func (m *modelCall) modelAllowed(ctx context.Context, model domain.Model) bool {
	if model.ID == m.model.ID {
		return true
	}

	if listed := m.scope.Profile.ModelsAllowed; listed != nil {
		return slices.ContainsFunc(listed, func(name string) bool {
			allowed, err := m.Models.Resolve(ctx, name)
			return err == nil && allowed.ID == model.ID
		})
	}

	return !m.unattended() && model.Price.Within(m.model.Price)
}

func (m *modelCall) unattended() bool {
	switch m.turn.Chat.Trigger {
	case domain.TriggerSchedule, domain.TriggerDAG, domain.TriggerIssue:
		return true
	default:
		return m.scope.Headless
	}
}

// unknownModel returns what models there are.
func (m *modelCall) unknownModel(ctx context.Context, name string) string {
	words := fmt.Sprintf("There is no model named %q.", name)

	if known, err := m.Models.Models(ctx); err == nil && len(known) > 0 {
		ids := make([]string, 0, len(known))
		for _, model := range known[:min(len(known), 50)] {
			ids = append(ids, model.ID)
		}

		words += " The models are: " + strings.Join(ids, ", ") + "."
	}

	return words
}

// source says to clients which sub-agent asks a question; nil for the main loop.
func (m *modelCall) source() *domain.SourceLoop {
	loop := m.turn.Loop
	if loop.Depth == 0 {
		return nil
	}

	return &domain.SourceLoop{
		LoopID: m.key.LoopID, ParentToolCallID: loop.ParentToolCallID, AgentType: loop.AgentType, Description: loop.Description,
	}
}

// askFrom puts the source of a question into the call, where clients find it.
func (m *modelCall) askFrom(call *domain.PlannedCall, arguments json.RawMessage) {
	if call.Source = m.source(); call.Source == nil {
		return
	}

	if marked, err := questions.WithSource(arguments, *call.Source); err == nil {
		call.Arguments = marked
	}
}

// forkOf returns what a run needs of a call that is a sub-agent; nil for one that a worker
// runs, such as the one that starts a sub-agent in the background.
func forkOf(call domain.PlannedCall) *contract.Fork {
	if call.Fork == nil || call.Fork.Background {
		return nil
	}

	return &contract.Fork{MaxSteps: call.Fork.MaxSteps, Seconds: int(call.Fork.Time.Seconds())}
}
