package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"

	"everloop/activities/contract"
	"everloop/activities/tools"
	"everloop/domain"
	"everloop/internal/durable"
)

// Codes of model calls that fail a chat.
const (
	CodeModelUnavailable = "model_unavailable"
	CodeModelRefused     = "model_refused"
	CodeModelRetry       = "model_retry"
	CodeContextOverflow  = "context_overflow"
)

// maxRetryAfter bounds the wait that a model server may ask for.
const maxRetryAfter = 5 * time.Minute

var errStopped = errors.New("the chat was stopped")

// CallModel makes one model call as one assistant turn. A call that fails before
// clients saw anything leaves its turn to the next try; one that had begun to
// stream ends its turn as failed, and the next try opens a new one, so that no
// text is ever mixed (decisions.md section 3).
func (a *Activities) CallModel(ctx context.Context, in contract.CallModelIn) (contract.CallModelOut, error) {
	defer durable.Heartbeat(ctx)()

	// Watch before the flag is looked at, so that no stop falls in between.
	stopped, unwatch := a.watchStop(in.ChatID, in.TaskID)
	defer unwatch()

	key := domain.TurnKey{SessionID: in.SessionID, ChatID: in.ChatID, LoopID: in.LoopID, Step: in.Step}
	if !in.Compacted {
		if out, settled, err := a.beforeCall(ctx, key); settled || err != nil {
			return out, err
		}
	}
	// The model of sessions that name none, so that the turn can tell it from the
	// start; a server that cannot be asked now is found out by the call itself.
	standard, _ := a.Models.Resolve(ctx, "")
	turn, err := a.openTurn(ctx, key, standard.ID)
	switch {
	case err != nil:
		return contract.CallModelOut{}, err
	case turn.state == domain.TurnStopped:
		return contract.CallModelOut{Stopped: true}, nil
	case turn.state == domain.TurnQueued:
		return contract.CallModelOut{Queued: true}, nil
	case turn.state == domain.TurnBehind:
		return a.callsLeft(ctx, key, turn.OpenedTurn)
	case turn.state == domain.TurnFinished:
		return a.reported(ctx, key, turn.OpenedTurn)
	}
	scope := a.scopeOfTurn(key, turn.OpenedTurn)
	call := &modelCall{Activities: a, key: key, taskID: in.TaskID, turn: turn.OpenedTurn, scope: scope, tools: a.Tools.For(ctx, scope)}
	return call.run(ctx, stopped)
}

type foundTurn struct {
	domain.OpenedTurn
	state domain.TurnState
}

// openTurn gives the turn to stream into. One that a dead worker left is failed
// first, with the text that clients have of it.
func (a *Activities) openTurn(ctx context.Context, key domain.TurnKey, model string) (foundTurn, error) {
	turn, state, err := a.Turns.OpenTurn(ctx, key, model, a.ForkLimits.AtOnce)
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
			lost.Blocks = a.restore(ctx, o)
		}
	}
	if err := a.Turns.CloseTurn(ctx, lost); err != nil && !errors.Is(err, domain.ErrFenced) {
		return foundTurn{}, err
	}
	turn, state, err = a.Turns.OpenTurn(ctx, key, model, a.ForkLimits.AtOnce)
	return foundTurn{turn, state}, err
}

// reported answers for a turn that an earlier attempt closed.
func (a *Activities) reported(ctx context.Context, key domain.TurnKey, turn domain.OpenedTurn) (contract.CallModelOut, error) {
	calls, asked, err := a.Turns.FinishedCalls(ctx, turn.EntryID)
	if err != nil {
		return contract.CallModelOut{}, err
	}
	out := contract.CallModelOut{EntryID: turn.EntryID, Calls: summaries(a.Tools.For(ctx, a.scopeOfTurn(key, turn)), calls), Asked: asked, Again: turn.CallCount > 0}
	if turn.CallCount == 0 && answerProblem(turn.Chat, textOf(turn.Blocks)) != "" {
		out.Again = turn.Chat.SchemaTries < maxSchemaTries // this answer is counted already
		out.Mismatch = !out.Again
	}
	return out, nil
}

func summaries(set *tools.Toolset, calls []domain.PlannedCall) []contract.ToolCall {
	var out []contract.ToolCall
	for _, call := range calls {
		if call.Questions == nil && call.Settled == nil && !call.Guarded {
			out = append(out, contract.ToolCall{
				ID: call.ID, Name: call.ToolName, Summary: set.Summary(call.ToolName, call.Arguments), Fork: forkOf(call),
			})
		}
	}
	return out
}

// modelCall is one try of one model call.
type modelCall struct {
	*Activities
	key    domain.TurnKey
	taskID string // of a background sub-agent
	turn   domain.OpenedTurn
	scope  tools.Scope
	tools  *tools.Toolset
	model  domain.Model
	stream *turnStream
	told   []domain.TranscriptTurn

	overflowed bool // its history was compacted after a refusal already
}

func (m *modelCall) run(ctx context.Context, stopped <-chan struct{}) (contract.CallModelOut, error) {
	began := time.Now()
	// What is written at the end must be written also when the call was
	// cancelled.
	keep := context.WithoutCancel(ctx)
	calling, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	draining := activity.GetWorkerStopChannel(ctx)
	go func() {
		select {
		case <-stopped:
			abort(errStopped)
		case <-draining:
			abort(errDraining)
		case <-calling.Done():
		}
	}()
	m.stream = newTurnStream(keep, m.turn, m.Log, m.Turns, abort)

	reply, err := m.ask(calling)
	blocks, publishErr := m.stream.Finish()
	if err == nil {
		err = publishErr
	}
	if cause := context.Cause(calling); err != nil && cause != nil {
		err = cause
	}
	took := time.Since(began)
	switch {
	case err == nil:
		m.Metrics.ModelCalled("completed", took)
		return m.complete(keep, reply, blocks)
	case errors.Is(err, errStopped), durable.Cancelled(err):
		m.Metrics.ModelCalled("interrupted", took)
		return m.interrupted(keep, blocks)
	case errors.Is(err, domain.ErrFenced):
		return contract.CallModelOut{Stopped: true}, nil
	case !m.overflowed && finalCode(err) == CodeContextOverflow:
		m.Metrics.ModelCalled("failed", took)
		return m.tooLong(keep, err, blocks)
	default:
		m.Metrics.ModelCalled("failed", took)
		return contract.CallModelOut{}, m.failed(keep, err, blocks)
	}
}

var errDraining = errors.New("the worker is shutting down")

func (m *modelCall) ask(ctx context.Context) (domain.Reply, error) {
	var err error
	if m.model, err = m.Models.Resolve(ctx, requested(m.turn.Chat)); err != nil {
		return domain.Reply{}, err
	}
	prompt, told, err := m.prompt(ctx, m.key, m.turn, m.model, m.tools)
	if err != nil {
		return domain.Reply{}, err
	}
	m.told = told
	reply, err := m.Models.Stream(ctx, prompt, m.stream.Add)
	if err == nil {
		m.learn(prompt, reply.Usage.InputTokens)
	}
	return reply, err
}

// complete closes the turn with everything it asks for.
func (m *modelCall) complete(ctx context.Context, reply domain.Reply, blocks []domain.Block) (contract.CallModelOut, error) {
	closing := m.closing(domain.TurnCompleted, blocks)
	closing.Usage, closing.Model, closing.ContextWindow = reply.Usage, m.model.ID, m.model.ContextWindow
	closing.Cost = m.model.Price.Of(reply.Usage)
	out := contract.CallModelOut{EntryID: m.turn.EntryID}
	stuck := m.stuck(reply.Calls)
	for _, requested := range reply.Calls {
		calls, plan := m.plan(ctx, requested, stuck)
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
	if stuck != "" {
		out.Finish, out.Message = domain.FinishStuckDetected, stuck
	}
	out.Calls = summaries(m.tools, closing.Calls)
	out.Again = len(closing.Calls) > 0
	if len(closing.Calls) == 0 {
		if problem := answerProblem(m.turn.Chat, textOf(blocks)); problem != "" {
			out.Again = m.turn.Chat.SchemaTries+1 < maxSchemaTries
			out.Mismatch = !out.Again
			closing.Misfit = true
		}
	}
	err := m.Turns.CloseTurn(ctx, closing)
	if errors.Is(err, domain.ErrFenced) {
		return contract.CallModelOut{Stopped: true}, nil
	}
	if err != nil {
		return out, err
	}
	m.beginEarly(ctx, m.key.ChatID, m.taskID, out.Calls)
	if out.Again || out.Mismatch {
		return out, nil
	}
	return m.end(ctx, out, domain.FinishCompleted), nil
}

// end ends the chat with its last turn, without the round through the server
// that its run would need. When that fails, the run does it: ending is done once,
// whoever asks for it.
func (m *modelCall) end(ctx context.Context, out contract.CallModelOut, reason domain.FinishReason) contract.CallModelOut {
	if m.key.LoopID != domain.RootLoop {
		return out
	}
	finished, err := m.FinishChat(ctx, contract.FinishChatIn{ChatID: m.key.ChatID, Reason: reason})
	if err != nil {
		m.Logger.Warn("chat not ended with its last turn; its run will", "chat_id", m.key.ChatID, "error", err)
		return out
	}
	out.Again, out.Ended, out.Next = finished.More, !finished.More, finished.Next
	return out
}

func (m *modelCall) closing(status domain.TurnStatus, blocks []domain.Block) domain.ClosingTurn {
	return domain.ClosingTurn{
		TurnKey: m.key, EntryID: m.turn.EntryID, Attempt: m.turn.Attempt,
		Status: status, Blocks: blocks, Model: m.model.ID, Duration: time.Since(m.turn.StartedAt),
	}
}

// plan decides what becomes of a call that the model asks for: a question is put
// to the user, a plan is kept with the turn, a call that cannot be carried out
// is refused at once, and the others are left to the tools' workers.
// Stuck says why none of the turn's calls is carried out; empty: they are.
func (m *modelCall) plan(ctx context.Context, requested domain.RequestedCall, stuck string) ([]domain.PlannedCall, *domain.Block) {
	call := domain.PlannedCall{
		ID: domain.NewToolCallID(), ToolName: domain.CleanText(requested.Name),
		Arguments: domain.CleanText(requested.Arguments),
	}
	call.DisplayName = m.tools.DisplayName(call.ToolName)
	tool, arguments, refused := m.tools.Admit(call.ToolName, call.Arguments)
	call.Acts = tool.Acts
	switch {
	case refused != nil:
		call.Settled = &domain.Settlement{Status: domain.CallError, Result: refused.Output}
	case stuck != "":
		call.Settled = &domain.Settlement{Status: domain.CallError, Result: "Not carried out: " + stuck + "."}
	case tool.Asks:
		m.planQuestion(&call, arguments)
	case tool.Name == tools.SubmitPlan:
		call.Settled = &domain.Settlement{Status: domain.CallDone, Result: "The plan is shown to the user."}
		return []domain.PlannedCall{call}, &domain.Block{Type: domain.BlockPlan, Content: string(arguments)}
	case tool.Name == tools.Agent:
		if m.planFork(ctx, &call, arguments); call.Settled == nil {
			return m.permit(call, arguments), nil
		}
	default:
		return m.permit(call, arguments), nil
	}
	return []domain.PlannedCall{call}, nil
}

// planQuestion puts a call's questions to the user.
func (m *modelCall) planQuestion(call *domain.PlannedCall, arguments json.RawMessage) {
	questions, err := tools.ParseQuestions(arguments)
	if err != nil {
		call.Settled = &domain.Settlement{Status: domain.CallError, Result: err.Error()}
		return
	}
	if call.Questions, err = json.Marshal(questions); err != nil {
		call.Settled = &domain.Settlement{Status: domain.CallError, Result: "The questions could not be read."}
		return
	}
	m.askFrom(call, arguments)
}

// interrupted closes the turn of a stopped chat with the text so far.
func (m *modelCall) interrupted(ctx context.Context, blocks []domain.Block) (contract.CallModelOut, error) {
	out := contract.CallModelOut{EntryID: m.turn.EntryID, Stopped: true}
	err := m.Turns.CloseTurn(ctx, m.closing(domain.TurnInterrupted, blocks))
	switch {
	case errors.Is(err, domain.ErrFenced):
		return out, nil // the end of the chat was quicker
	case err != nil:
		return out, err
	default:
		return m.end(ctx, out, domain.FinishInterrupted), nil
	}
}

// tooLong closes the turn of a prompt that the server refused for its length: the
// history is compacted and the call made once more, as a new turn.
func (m *modelCall) tooLong(ctx context.Context, cause error, blocks []domain.Block) (contract.CallModelOut, error) {
	closing := m.closing(domain.TurnFailed, blocks)
	closing.FailureReason = reasonOf(cause)
	err := m.Turns.CloseTurn(ctx, closing)
	if errors.Is(err, domain.ErrFenced) {
		return contract.CallModelOut{Stopped: true}, nil
	}
	return contract.CallModelOut{EntryID: m.turn.EntryID, Compact: domain.CompactOverflow}, err
}

// failed decides whether the call is tried again, and leaves the turn to the
// next try or closes it.
func (m *modelCall) failed(ctx context.Context, cause error, blocks []domain.Block) error {
	again, retry := sortFault(ctx, cause)
	if again && !m.stream.Shown() {
		if err := m.Turns.ReleaseTurn(ctx, m.key, m.turn.EntryID, m.turn.Attempt, retry); err != nil && !errors.Is(err, domain.ErrFenced) {
			return err
		}
		return durable.Retry(CodeModelRetry, retry.Reason, time.Until(retry.At))
	}
	closing := m.closing(domain.TurnFailed, blocks)
	closing.FailureReason = retry.Reason
	if err := m.Turns.CloseTurn(ctx, closing); err != nil && !errors.Is(err, domain.ErrFenced) {
		return err
	}
	if again {
		return durable.Retry(CodeModelRetry, retry.Reason, time.Until(retry.At))
	}
	return durable.Final(finalCode(cause), retry.Reason)
}

// sortFault tells whether a failure may pass, why it happened in words for
// clients, and when the next try comes.
func sortFault(ctx context.Context, cause error) (again bool, retry domain.Retry) {
	attempt := int(activity.GetInfo(ctx).Attempt)
	retry = domain.Retry{Attempt: attempt, Reason: reasonOf(cause), Waiting: domain.WaitingModel, At: time.Now().Add(durable.ModelBackoff(attempt))}
	if errors.Is(cause, errDraining) {
		retry.At = time.Now().Add(100 * time.Millisecond)
		return true, retry
	}
	fault, known := errors.AsType[*domain.ModelError](cause)
	switch {
	case known && !fault.Retryable():
		return false, retry
	case known && fault.Fault == domain.FaultRateLimited:
		retry.Waiting = domain.WaitingRateLimit
	case !known:
		if e := domain.AsError(cause); e.Kind != domain.Internal && !e.Retryable() {
			return false, retry
		}
	}
	if known && fault.RetryAfter > 0 {
		retry.At = time.Now().Add(min(fault.RetryAfter, maxRetryAfter))
	}
	return attempt < durable.ModelAttempts, retry
}

func reasonOf(cause error) string {
	if fault, ok := errors.AsType[*domain.ModelError](cause); ok {
		return fault.Error()
	}
	if e, ok := errors.AsType[*domain.Error](cause); ok {
		return e.Message
	}
	if errors.Is(cause, errDraining) {
		return cause.Error()
	}
	return fmt.Sprintf("the model call could not be made: %v", cause)
}

func finalCode(cause error) string {
	if fault, ok := errors.AsType[*domain.ModelError](cause); ok {
		switch fault.Fault {
		case domain.FaultContextOverflow:
			return CodeContextOverflow
		case domain.FaultUnknownModel:
			return domain.CodeUnknownModel
		case domain.FaultRefused:
			return CodeModelRefused
		}
		return CodeModelUnavailable
	}
	if e, ok := errors.AsType[*domain.Error](cause); ok {
		return e.Code
	}
	return domain.CodeInternal
}
