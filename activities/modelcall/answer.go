package modelcall

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"everloop/activities/contract"
	"everloop/activities/prompt"
	"everloop/domain"
	"everloop/domain/modelretry"
)

// Bounds of the model calls that the server may charge for one turn.
const (
	maxContinuations = 3
	maxEmptyAnswers  = 3 // in a row
	maxUnusableCalls = 4 // turns in a row with a call that was cut or has no name
)

// answer calls the model until it has answered: an answer that ends by its length is
// continued, and an empty one is asked for again. What streamed stays in the same turn,
// so that the turn has the whole answer.
func (m *modelCall) answer(ctx context.Context, request domain.Prompt) (domain.Reply, error) {
	whole, err := m.call(ctx, request)

	for continued, empty := 0, 0; err == nil; {
		next := request

		switch {
		case whole.FinishReason == domain.ReplyFiltered:
			return whole, domain.Newf(
				domain.Conflict,
				string(domain.FinishContentFiltered),
				"the model server's content filter ended the answer",
			)
		case len(whole.Calls) > 0:
			return whole, nil
		case whole.FinishReason == domain.ReplyLength:
			if continued++; continued > maxContinuations || m.spent() {
				m.cut = true
				return whole, nil
			}

			next = prompt.Continue(request, whole)
		case strings.TrimSpace(whole.Text) != "" || len(m.turn.Chat.OutputSchema) > 0:
			return whole, nil
		default:
			if empty++; empty >= maxEmptyAnswers || m.spent() {
				return whole, domain.Newf(
					domain.Conflict,
					string(domain.FinishEmptyAnswer),
					"the model answered with no text and no tool call",
				)
			}
		}

		var more domain.Reply

		more, err = m.call(ctx, next)
		whole = joined(whole, more)
	}

	return whole, err
}

// call makes one model call and charges it.
func (m *modelCall) call(ctx context.Context, request domain.Prompt) (domain.Reply, error) {
	reply, err := m.Models.Stream(ctx, request, m.stream.Add, aboutTurn(m.key)...)
	m.used = m.used.Add(m.model.Price.Charge(reply.Usage))

	if reply.Model != "" { // the server has accepted the request
		m.paid++
	}

	if err == nil && m.promptTokens == 0 {
		size := m.sizes().Believe(request, reply.Usage.InputTokens)

		m.promptTokens = size.Tokens
		if size.Cut {
			m.promptCut(ctx, reply.Usage.InputTokens, size.Estimated)
		}
	}

	return reply, err
}

// aboutTurn returns the attributes of the span of a turn's model call.
func aboutTurn(key domain.TurnKey) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("everloop.session_id", string(key.SessionID)), attribute.String("everloop.chat_id", string(key.ChatID)),
		attribute.String("everloop.loop_id", key.LoopID), attribute.Int("everloop.step", key.Step),
	}
}

// cutNote starts the note of a turn whose prompt the server has cut.
const cutNote = "The model server seems to cut prompts"

// promptCut notes, once in a conversation, records and logs that the server reports far fewer
// tokens than the prompt has.
func (m *modelCall) promptCut(ctx context.Context, reported, estimated int64) {
	m.Models.PromptWasCut(ctx, m.model.ID, reported, estimated)
	m.Logger.Warn("the model server reports far fewer tokens than the prompt has", "model", m.model.ID,
		"session_id", m.key.SessionID, "reported", reported, "estimated", estimated)

	for _, turn := range m.transcript.Turns {
		if slices.ContainsFunc(turn.Blocks, func(b domain.Block) bool { return strings.HasPrefix(b.Content, cutNote) }) {
			return
		}
	}

	m.notes = append(m.notes, domain.Block{Type: domain.BlockSystemNote, Content: fmt.Sprintf(
		"%s: it reports %d tokens of a prompt of about %d. Raise its context length (Ollama: OLLAMA_CONTEXT_LENGTH or num_ctx), "+
			"or set the context window that it has.", cutNote, reported, estimated,
	)})
}

// spent reports whether the turn has cost as many calls as it may.
func (m *modelCall) spent() bool { return m.turn.Faults.Paid+m.paid >= modelretry.MaxPaid }

// joined returns an answer with its continuation.
func joined(whole, more domain.Reply) domain.Reply {
	more.Text = whole.Text + more.Text

	more.Thinking = whole.Thinking + more.Thinking
	if more.ReasoningField == "" {
		more.ReasoningField = whole.ReasoningField
	}

	return more
}

// Results of calls that are not run, because the model server did not send them whole.
const (
	cutCall = "Not carried out: the answer reached the limit of its length within this call, so that its arguments are incomplete. " +
		"Make the call again with shorter arguments; write a long text in several calls."
	namelessCall = "Not carried out: the call has no name. Make it again with the name of one of the tools."
)

// unusable returns the result of a call that did not arrive whole; empty: it did. Of an answer
// that reached the limit of its length the last call is incomplete, unless its arguments
// end.
func unusable(reply domain.Reply, n int) string {
	call := reply.Calls[n]
	arguments := strings.TrimSpace(call.Arguments)

	switch {
	case reply.FinishReason == domain.ReplyLength && n == len(reply.Calls)-1 && (arguments == "{}" || !json.Valid([]byte(arguments))):
		return cutCall
	case call.Name == "":
		return namelessCall
	default:
		return ""
	}
}

// unusableInARow counts the turns of the loop that have an unusable call, up to the one
// that asks for these calls.
func unusableInARow(turns []domain.TranscriptTurn, calls []domain.PlannedCall) int {
	last := func(call domain.PlannedCall) bool {
		return call.Settled != nil && (call.Settled.Result == cutCall || call.Settled.Result == namelessCall)
	}
	if !slices.ContainsFunc(calls, last) {
		return 0
	}

	n := 1

	for _, turn := range slices.Backward(turns) {
		if !slices.ContainsFunc(turn.Calls, func(call domain.ToolCall) bool {
			return call.Result == cutCall || call.Result == namelessCall
		}) {
			break
		}

		n++
	}

	return n
}

// outputLimitReached sets the outcome of an answer that reached the limit of its length
// too often.
func outputLimitReached(out *contract.CallModelOut) {
	out.Outcome, out.Reason = contract.OutcomeLimitReached, domain.FinishOutputLimit
	out.Message = "the answer reached the limit of its length, and was continued as often as it may be"
}
