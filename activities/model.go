package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"everloop/activities/contract"
	"everloop/activities/prompt"
	"everloop/activities/stream"
	"everloop/activities/tools"
	"everloop/activities/tools/agents"
	"everloop/activities/tools/questions"
	"everloop/domain"
	"everloop/domain/modelretry"
	"everloop/internal/durable"
)

// CallModel makes one model call as one assistant turn. A call that fails before
// clients saw anything leaves its turn to the next try; one that had started to
// stream ends its turn as failed, and the next try opens a new one, so that no
// text is ever mixed.
//
// An attempt of the activity joins the call that an earlier one has left running
// in this process, so that the model is called once.
func (a *Activities) CallModel(ctx context.Context, in contract.CallModelIn) (contract.CallModelOut, error) {
	return a.shared.models.Run(ctx, in, durable.AbandonAfter, func(ctx context.Context) (contract.CallModelOut, error) {
		return a.callModel(ctx, in)
	})
}

func (a *Activities) callModel(ctx context.Context, in contract.CallModelIn) (contract.CallModelOut, error) {
	// Watch before the flag is looked at, so that no stop falls in between.
	stopped, unwatch := a.watchStop(in.ChatID, in.TaskID)
	defer unwatch()

	key := domain.TurnKey{SessionID: in.SessionID, ChatID: in.ChatID, LoopID: in.LoopID, Step: in.Step}
	// The model of sessions that name none, which the event of the turn's start shows. A
	// server that is unavailable now fails the call itself.
	standard, _ := a.Models.Resolve(ctx, "")

	turn, out, err := a.openAdmitted(ctx, key, standard.ID, in.Compacted)
	switch {
	case err != nil || turn.state == domain.TurnRefused:
		return out, err
	case turn.state == domain.TurnStopped:
		return contract.CallModelOut{Outcome: contract.OutcomeStopped}, nil
	case turn.state == domain.TurnQueued:
		return contract.CallModelOut{Outcome: contract.OutcomeQueued}, nil
	case turn.state == domain.TurnDelayed:
		return a.delayed(key, turn.Faults), nil
	case turn.state == domain.TurnBehind:
		return a.pendingCalls(ctx, key, turn.OpenedTurn)
	case turn.state == domain.TurnFinished:
		return a.reported(ctx, key, turn.OpenedTurn)
	}

	scope := a.scopeOfTurn(key, turn.OpenedTurn)
	call := &modelCall{
		Activities: a, key: key, taskID: in.TaskID, turn: turn.OpenedTurn, opened: time.Now(), scope: scope, tools: a.Tools.For(ctx, scope),
		overflowed: in.Overflowed,
	}

	return call.run(ctx, stopped)
}

type foundTurn struct {
	domain.OpenedTurn
	state domain.TurnState
}

// openTurn gives the turn to stream into. One that a dead worker left is failed
// first, with the text that clients have of it.
func (a *Activities) openTurn(ctx context.Context, key domain.TurnKey, model string, admit func(domain.NextTurn) bool) (foundTurn, error) {
	turn, state, err := a.tryTurn(ctx, key, model, admit)
	a.filesDue(key.SessionID, err == nil && turn.CaptureDue)

	if err != nil || state != domain.TurnOrphaned {
		return foundTurn{turn, state}, err
	}

	open, err := a.Chats.OpenTurnsOfChat(ctx, key.ChatID)
	if err != nil {
		return foundTurn{}, err
	}

	lost := domain.ClosingTurn{
		TurnKey: key, EntryID: turn.EntryID, Attempt: turn.Attempt, Status: domain.TurnFailed,
		Duration: time.Since(turn.StartedAt), FailureReason: "the worker was lost while the model answered",
	}
	for _, o := range open {
		if o.ID == turn.EntryID {
			lost.Blocks = a.restoreAll(ctx, []domain.OpenTurn{o})[o.ID]
		}
	}

	if err := a.Turns.CloseTurn(ctx, lost); err != nil && !errors.Is(err, domain.ErrFenced) {
		return foundTurn{}, err
	}

	turn, state, err = a.tryTurn(ctx, key, model, admit)

	return foundTurn{turn, state}, err
}

// tryTurn opens the turn, or finds the one that an earlier try of this process has
// opened without hearing of it.
func (a *Activities) tryTurn(
	ctx context.Context, key domain.TurnKey, model string, admit func(domain.NextTurn) bool,
) (turn domain.OpenedTurn, state domain.TurnState, err error) {
	err = a.opened.Use([]domain.TurnKey{key}, func(nonces []string) error {
		turn, state, err = a.Turns.OpenTurnIf(ctx, key, model, a.ForkLimits.MaxConcurrent, nonces[0], admit)
		return err
	})

	return turn, state, err
}

// reported returns the result of a turn that an earlier attempt closed.
func (a *Activities) reported(ctx context.Context, key domain.TurnKey, turn domain.OpenedTurn) (contract.CallModelOut, error) {
	calls, asked, err := a.Turns.FinishedCalls(ctx, turn.EntryID)
	if err != nil {
		return contract.CallModelOut{}, err
	}

	set := a.Tools.For(ctx, a.scopeOfTurn(key, turn))

	if turn.Status == domain.TurnInterrupted {
		out := contract.CallModelOut{EntryID: turn.EntryID}
		outputLimitReached(&out)

		return out, nil
	}

	out := contract.CallModelOut{
		EntryID: turn.EntryID, Outcome: contract.OutcomeCompleted,
		Calls: a.scheduled(ctx, turn.Session, set, calls), Parallel: a.ParallelTools, Asked: asked,
	}

	if turn.CallCount > 0 {
		out.Outcome = contract.OutcomeContinue
	} else if problem := prompt.AnswerProblem(turn.Chat, turn.Blocks); problem != "" {
		afterMismatch(&out, turn.Chat.SchemaTries, problem) // this answer is counted already
	}

	return out, nil
}

// maxSchemaTries is how many answers a headless chat with an output_schema gets.
const maxSchemaTries = 3

// afterMismatch sets the outcome of an answer that does not follow the schema, the last of
// so many.
func afterMismatch(out *contract.CallModelOut, tries int, problem string) {
	out.Outcome = contract.OutcomeContinue
	if tries >= maxSchemaTries {
		out.Outcome, out.Message = contract.OutcomeSchemaMismatch, fmt.Sprintf("no answer followed the output_schema: %.500s", problem)
	}
}

// modelCall is one try of one model call.
type modelCall struct {
	*Activities
	key    domain.TurnKey
	taskID string // of a background sub-agent
	turn   domain.OpenedTurn
	opened time.Time
	scope  tools.Scope
	tools  *tools.Toolset
	model  domain.Model
	used   domain.Usage   // by the turn's calls, as far as the server has said
	paid   int            // calls that the server has accepted
	cut    bool           // the answer reached the limit of its length, and was continued as often as it may be
	notes  []domain.Block // for the user, about how the answer was made
	// promptTokens is the size of the first prompt that was answered.
	promptTokens int64
	stream       *stream.Stream
	// unpublished is the text that the stream could not publish.
	unpublished []domain.UnpublishedDelta
	transcript  domain.Transcript // of its prompt

	overflowed bool // its history was compacted after a refusal already
}

func (m *modelCall) run(ctx context.Context, stopped <-chan struct{}) (contract.CallModelOut, error) {
	began := time.Now()
	// What is written at the end must be written also when the call was
	// cancelled.
	keep := context.WithoutCancel(ctx)

	calling, abort := durable.UntilInterrupted(ctx, stopped, m.DrainTime)
	defer abort(nil)

	m.stream = stream.New(keep, m.turn, m.Log, m.Turns, abort)

	reply, err := m.ask(calling)
	blocks, unpublished, fenced := m.stream.Finish()
	m.unpublished = unpublished

	if err == nil {
		err = fenced
	}

	if cause := context.Cause(calling); err != nil && cause != nil {
		err = cause
	}

	took := time.Since(began)
	due, speech := errors.AsType[*untranscribedError](err)

	switch {
	case speech:
		return m.awaitTranscription(keep, due.turns)
	case err == nil:
		m.Metrics.ModelCalled("completed", took)
		return m.complete(keep, reply, blocks)
	case errors.Is(err, durable.ErrStopped), durable.Cancelled(err):
		m.Metrics.ModelCalled("interrupted", took)
		return m.interrupted(keep, blocks)
	case errors.Is(err, domain.ErrFenced):
		return m.fenced()
	case !m.overflowed && modelretry.Code(err) == domain.CodeContextOverflow:
		m.Metrics.ModelCalled("failed", took)
		return m.tooLong(keep, err, blocks)
	default:
		m.Metrics.ModelCalled("failed", took)
		return m.failed(keep, err, blocks)
	}
}

func (m *modelCall) ask(ctx context.Context) (domain.Reply, error) {
	if reply, scripted := m.scripted(); scripted {
		return reply, nil
	}

	var err error
	if m.model, err = m.Models.Resolve(ctx, m.turn.Chat.RequestedModel()); err != nil {
		return domain.Reply{}, modelretry.ListFault(err)
	}

	in, err := m.promptInput(ctx, m.key, m.turn, m.model, m.tools)
	if err != nil {
		return domain.Reply{}, err
	}

	m.transcript = in.Transcript
	m.noteTools()

	reply, err := m.answer(ctx, prompt.Build(in))

	switch {
	case m.stream.Shown():
		return reply, err
	case refusesTools(err) && len(toolServers(in.Tools)) > 0 && !(namesImages(err) && len(in.ShownImages()) > 0):
		return m.answerWithoutServers(ctx, in, reply, err)
	case refusesImages(err):
		return m.answerWithout(ctx, in, reply, err)
	}

	return reply, err
}

// complete closes the turn with everything it asks for.
func (m *modelCall) complete(ctx context.Context, reply domain.Reply, blocks []domain.Block) (contract.CallModelOut, error) {
	if len(m.notes) > 0 {
		blocks = append(m.notes, blocks...)
	}

	closing := m.closing(domain.TurnCompleted, blocks)
	closing.ContextWindow, closing.FaultsOver = m.model.ContextWindow, m.turn.Faults.Count > 0
	closing.ReasoningField, closing.ServerMembers = reply.ReasoningField, reply.ServerMembers
	out := contract.CallModelOut{EntryID: m.turn.EntryID, Outcome: contract.OutcomeCompleted}

	for i := range reply.Calls {
		reply.Calls[i].Name = m.tools.Name(reply.Calls[i].Name)
	}

	stuck := m.stuck(reply.Calls)
	for i, requested := range reply.Calls {
		if reason := unusable(reply, i); reason != "" {
			closing.Calls = append(closing.Calls, m.settled(requested, reason))
			continue
		}

		calls, plan := m.plan(ctx, requested, whyNot(i, stuck))
		if plan != nil {
			closing.Blocks = append(closing.Blocks, *plan)
		}

		for _, call := range calls {
			if call.Questions != nil {
				closing.Status = domain.TurnPaused
				out.Asked++
			}
		}

		closing.Calls = append(closing.Calls, calls...)
	}

	out.Calls, out.Parallel = m.scheduled(ctx, m.turn.Session, m.tools, closing.Calls), m.ParallelTools
	switch {
	case stuck != "":
		out.Outcome, out.Reason, out.Message = contract.OutcomeLimitReached, domain.FinishStuckDetected, stuck
	case m.cut:
		outputLimitReached(&out)

		closing.Status, closing.FailureReason = domain.TurnInterrupted, out.Message
	case unusableInARow(m.transcript.Turns, closing.Calls) >= maxUnusableCalls:
		outputLimitReached(&out)

		if reply.FinishReason != domain.ReplyLength {
			out.Reason, out.Message = domain.FinishStuckDetected, "the model sent tool calls without a name repeatedly"
		}
	case len(closing.Calls) > 0:
		out.Outcome = contract.OutcomeContinue
	default:
		if problem := prompt.AnswerProblem(m.turn.Chat, blocks); problem != "" {
			afterMismatch(&out, m.turn.Chat.SchemaTries+1, problem)

			closing.Rejected = true
		}
	}

	err := m.record(ctx, closing)
	if errors.Is(err, domain.ErrFenced) {
		return m.fenced()
	}

	if err != nil {
		return m.failed(ctx, err, blocks)
	}

	if out.Outcome != contract.OutcomeCompleted {
		return out, nil
	}

	return m.endEarly(ctx, out, domain.FinishCompleted), nil
}

func (m *modelCall) closing(status domain.TurnStatus, blocks []domain.Block) domain.ClosingTurn {
	return domain.ClosingTurn{
		TurnKey:      m.key,
		EntryID:      m.turn.EntryID,
		Attempt:      m.turn.Attempt,
		Status:       status,
		Blocks:       blocks,
		Model:        m.model.ID,
		Usage:        m.used,
		PromptTokens: m.promptTokens,
		Duration:     time.Since(m.turn.StartedAt),
		Unpublished:  m.unpublished,
		Reminded:     len(m.transcript.Recalled) > 0,
	}
}

// plan decides what becomes of a call that the model asks for: a question is put
// to the user, a plan is kept with the turn, a call that cannot be carried out
// is refused at once, and the others are left to the tools' workers.
// Refusal says why the call is not carried out; empty: it is.
func (m *modelCall) plan(ctx context.Context, requested domain.RequestedCall, refusal string) ([]domain.PlannedCall, *domain.Block) {
	call := m.planned(requested)
	tool, arguments, refused := m.tools.Admit(call.ToolName, call.Arguments)

	call.Acts = tool.Acts
	switch {
	case refused != nil:
		call.Settled = &domain.Settlement{Status: domain.CallError, Result: refused.Output}
	case refusal != "":
		call.Settled = &domain.Settlement{Status: domain.CallError, Result: "Not carried out: " + refusal + "."}
	case tool.Asks && m.skipsConfirmations():
		call.Settled = &domain.Settlement{Status: domain.CallDone, Result: questions.LeftToModel}
	case tool.Asks:
		m.planQuestion(&call, arguments)
	case tool.Name == tools.SubmitPlan:
		call.Settled = &domain.Settlement{Status: domain.CallDone, Result: "The plan is shown to the user."}
		return []domain.PlannedCall{call}, &domain.Block{Type: domain.BlockPlan, Content: string(arguments)}
	case tool.Name == agents.Agent:
		if m.planFork(ctx, &call, arguments); call.Settled == nil {
			return m.permit(ctx, call, arguments), nil
		}
	default:
		return m.permit(ctx, call, arguments), nil
	}

	return []domain.PlannedCall{call}, nil
}

// planned is a call as the ledger enters it, before anything is decided about it.
func (m *modelCall) planned(requested domain.RequestedCall) domain.PlannedCall {
	call := domain.PlannedCall{
		ID: domain.NewToolCallID(), ServerCallID: requested.ID, ToolName: requested.Name,
		Arguments: domain.CleanText(requested.Arguments), ServerMembers: requested.ServerMembers,
	}
	if call.ToolName == tools.AskUserQuestion {
		call.Arguments = questions.Declared(call.Arguments)
	}

	call.DisplayName = m.tools.DisplayName(call.ToolName)

	return call
}

// settled is a call that is not carried out, for the reason that the model reads.
func (m *modelCall) settled(requested domain.RequestedCall, reason string) domain.PlannedCall {
	call := m.planned(requested)
	call.Settled = &domain.Settlement{Status: domain.CallError, Result: reason}

	return call
}

// planQuestion puts a call's questions to the user.
func (m *modelCall) planQuestion(call *domain.PlannedCall, arguments json.RawMessage) {
	asked, err := questions.ParseQuestions(arguments)
	if err != nil {
		call.Settled = &domain.Settlement{Status: domain.CallError, Result: err.Error()}
		return
	}

	if call.Questions, err = json.Marshal(asked); err != nil {
		call.Settled = &domain.Settlement{Status: domain.CallError, Result: "The questions could not be read."}
		return
	}

	call.Policy = m.scope.Session.Setup.QuestionPolicy
	m.askFrom(call, arguments)
}

// fenced leaves the call to its next attempt, which reads why this one may not write
// any more: the chat has ended or was stopped, or an activity of a run that was lost
// opened the turn behind this one.
func (m *modelCall) fenced() (contract.CallModelOut, error) {
	return contract.CallModelOut{}, durable.Retry(domain.CodeModelRetry, "the turn was closed or taken over", durable.DrainPause)
}

// interrupted closes the turn of a stopped chat with the text so far.
func (m *modelCall) interrupted(ctx context.Context, blocks []domain.Block) (contract.CallModelOut, error) {
	out := contract.CallModelOut{EntryID: m.turn.EntryID, Outcome: contract.OutcomeStopped}

	err := m.Turns.CloseTurn(ctx, m.closing(domain.TurnInterrupted, blocks))
	switch {
	case errors.Is(err, domain.ErrFenced):
		return out, nil // the end of the chat was quicker
	case err != nil:
		return out, err
	default:
		return m.endEarly(ctx, out, domain.FinishInterrupted), nil
	}
}

// tooLong closes the turn of a prompt that the server refused for its length: the
// history is compacted and the call made once more, as a new turn.
func (m *modelCall) tooLong(ctx context.Context, cause error, blocks []domain.Block) (contract.CallModelOut, error) {
	closing := m.closing(domain.TurnFailed, blocks)
	closing.FailureReason = domain.CleanText(modelretry.Reason(cause))

	err := m.Turns.CloseTurn(ctx, closing)
	if errors.Is(err, domain.ErrFenced) {
		return m.fenced()
	}

	return contract.CallModelOut{
		EntryID: m.turn.EntryID, Outcome: contract.OutcomeNeedsCompaction, Compact: domain.CompactOverflow,
	}, err
}
