package modelcall

import "everloop/domain"

// scriptedModel is the name under which the turns of a scripted chat are shown, with a
// context window that a single call never fills.
const (
	scriptedModel  = "dag"
	scriptedWindow = 128_000
)

// scripted answers in place of a model where the session of a DAG node has a script: the
// first step makes its tool call, the second ends the chat. Any other chat of the session
// has the model answer, as in every session.
func (m *modelCall) scripted() (domain.Reply, bool) {
	script := m.turn.Session.Setup.Script
	if script == nil || m.turn.Chat.Trigger != domain.TriggerDAG || m.key.LoopID != domain.RootLoop {
		return domain.Reply{}, false
	}

	m.model = domain.Model{ID: scriptedModel, ContextWindow: scriptedWindow}
	if m.key.Step > 1 {
		return domain.Reply{FinishReason: "stop", Model: scriptedModel}, true
	}

	return domain.Reply{
		Calls:        []domain.RequestedCall{{ID: "call_script", Name: script.Tool, Arguments: string(script.Arguments)}},
		FinishReason: "tool_calls", Model: scriptedModel,
	}, true
}
