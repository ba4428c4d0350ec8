// Package modelcall makes the model calls of chats: it opens the turn of a call, builds its
// prompt, streams the answer, decides what becomes of the tool calls that the model requests,
// and closes the turn. fault.go ends calls that failed; domain/modelretry says which of them
// are repeated.
package modelcall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"everloop/activities/chat"
	"everloop/activities/contract"
	"everloop/activities/fastpath"
	"everloop/activities/prompt"
	"everloop/activities/stream"
	"everloop/activities/toolrun"
	"everloop/activities/tools"
	"everloop/activities/tools/agents"
	"everloop/activities/tools/questions"
	"everloop/activities/transcripts"
	"everloop/domain"
	"everloop/domain/modelretry"
	"everloop/infra/events"
	"everloop/infra/metrics"
	"everloop/infra/model"
	"everloop/infra/objects"
	"everloop/infra/postgres/conversation"
	"everloop/infra/postgres/transcript"
	"everloop/infra/tokens"
	"everloop/internal/durable"
)

// Caller makes model calls on this worker.
type Caller struct {
	Turns       Turns
	Store       *conversation.Store
	Transcripts *transcript.Store
	Cache       *transcripts.Cache
	Log         *events.Log
	Signals     *events.Signals
	Models      *model.Client
	Retry       modelretry.Policy
	Prompts     Prompts
	Plans       Plans
	Profile     func(domain.Session) domain.Profile // how the agent of a session is set up
	Captures    toolrun.Captures                    // nil: files are not captured
	Chat        *chat.Steps
	Fast        *fastpath.Paths
	DrainTime   time.Duration // how long a call continues after its worker received its stop signal
	Metrics     *metrics.Worker
	Logger      *slog.Logger

	running durable.Shared[contract.CallModelIn, contract.CallModelOut]
	opened  durable.Nonces[domain.TurnKey]
}

// Prompts is what prompts are built with.
type Prompts struct {
	Tokens *tokens.Counter
	Images *objects.ImageCache
	Recall Recall // nil: no memories are recalled
	Speech bool   // a speech model is configured: recordings are transcribed before a call
}

// Plans is what decides about the tool calls that a model requests.
type Plans struct {
	Tools       *tools.Registry
	Agents      *agents.Agents
	ForkLimits  domain.ForkLimits
	Permissions toolrun.Permissions
	Env         func(context.Context, domain.Session) (map[string]string, error) // whose values are masked

	// Parallel is how many tool calls of one turn run concurrently; 0:
	// contract.DefaultParallelTools.
	Parallel int
	// SummaryNames limits the summaries of calls in the durable engine to the names of tools.
	SummaryNames bool
}

// Turns is the part of conversation.Store that opens and closes the turns of model calls. It
// is an interface for tests, which let commits lose their answers.
type Turns interface {
	// OpenTurnIf opens the turn of a model call. One that is not there yet is refused unless
	// admit lets it be opened; admit must not wait, nil admits all.
	OpenTurnIf(
		ctx context.Context, key domain.TurnKey, model string, maxConcurrent int, opener string, admit func(domain.NextTurn) bool,
	) (domain.OpenedTurn, domain.TurnState, error)
	// CloseAndClaim closes a turn and claims those of its calls that have a claimant, unless the
	// chat was stopped, and returns them.
	CloseAndClaim(ctx context.Context, turn domain.ClosingTurn) (claimed []domain.LedgerCall, err error)
}

// Drain waits until no model call runs, or ctx ends.
func (c *Caller) Drain(ctx context.Context) { c.running.Wait(ctx) }

// CallModel makes one model call as one assistant turn. A call that fails before
// clients saw anything leaves its turn to the next try; one that had started to
// stream ends its turn as failed, and the next try opens a new one, so that no
// text is ever mixed.
//
// An attempt of the activity joins the call that an earlier one has left running
// in this process, so that the model is called once.
func (c *Caller) CallModel(ctx context.Context, in contract.CallModelIn) (contract.CallModelOut, error) {
	return c.running.Run(ctx, in, durable.AbandonAfter, func(ctx context.Context) (contract.CallModelOut, error) {
		return c.callModel(ctx, in)
	})
}

func (c *Caller) callModel(ctx context.Context, in contract.CallModelIn) (contract.CallModelOut, error) {
	// Watch before the flag is looked at, so that no stop falls in between.
	stopped, unwatch := c.Signals.Watch(in.ChatID, in.TaskID)
	defer unwatch()

	key := domain.TurnKey{SessionID: in.SessionID, ChatID: in.ChatID, LoopID: in.LoopID, Step: in.Step}
	// The model of sessions that name none, which the event of the turn's start shows. A
	// server that is unavailable now fails the call itself.
	standard, _ := c.Models.Resolve(ctx, "")

	turn, out, err := c.openAdmitted(ctx, key, standard.ID, in.Compacted)
	switch {
	case err != nil || turn.state == domain.TurnRefused:
		return out, err
	case turn.state == domain.TurnStopped:
		return contract.CallModelOut{Outcome: contract.OutcomeStopped}, nil
	case turn.state == domain.TurnQueued:
		return contract.CallModelOut{Outcome: contract.OutcomeQueued}, nil
	case turn.state == domain.TurnDelayed:
		return c.delayed(key, turn.Faults), nil
	case turn.state == domain.TurnBehind:
		return c.pendingCalls(ctx, key, turn.OpenedTurn)
	case turn.state == domain.TurnFinished:
		return c.reported(ctx, key, turn.OpenedTurn)
	}

	scope := c.scope(key, turn.OpenedTurn)
	call := &modelCall{
		Caller:     c,
		key:        key,
		taskID:     in.TaskID,
		turn:       turn.OpenedTurn,
		opened:     time.Now(),
		scope:      scope,
		tools:      c.Plans.Tools.For(ctx, scope),
		overflowed: in.Overflowed,
	}

	return call.run(ctx, stopped)
}

type foundTurn struct {
	domain.OpenedTurn
	state domain.TurnState
}

// openTurn returns the turn to stream into. One that a dead worker left is failed
// first, with the text that clients have of it.
func (c *Caller) openTurn(ctx context.Context, key domain.TurnKey, model string, admit func(domain.NextTurn) bool) (foundTurn, error) {
	turn, state, err := c.tryTurn(ctx, key, model, admit)

	if err == nil && turn.CaptureDue && c.Captures != nil {
		c.Captures.Changed(key.SessionID)
	}

	if err != nil || state != domain.TurnOrphaned {
		return foundTurn{turn, state}, err
	}

	open, err := c.Transcripts.OpenTurnsOfChat(ctx, key.ChatID)
	if err != nil {
		return foundTurn{}, err
	}

	lost := domain.ClosingTurn{
		TurnKey: key, EntryID: turn.EntryID, Attempt: turn.Attempt, Status: domain.TurnFailed,
		Duration: time.Since(turn.StartedAt), FailureReason: "the worker was lost while the model answered",
	}
	for _, o := range open {
		if o.ID == turn.EntryID {
			lost.Blocks = c.Chat.Restore(ctx, []domain.OpenTurn{o})[o.ID]
		}
	}

	if err := c.Store.CloseTurn(ctx, lost); err != nil && !errors.Is(err, domain.ErrFenced) {
		return foundTurn{}, err
	}

	turn, state, err = c.tryTurn(ctx, key, model, admit)

	return foundTurn{turn, state}, err
}

// tryTurn opens the turn, or finds the one that an earlier try of this process has
// opened without hearing of it.
func (c *Caller) tryTurn(
	ctx context.Context, key domain.TurnKey, model string, admit func(domain.NextTurn) bool,
) (turn domain.OpenedTurn, state domain.TurnState, err error) {
	err = c.opened.Use([]domain.TurnKey{key}, func(nonces []string) error {
		turn, state, err = c.Turns.OpenTurnIf(ctx, key, model, c.Plans.ForkLimits.MaxConcurrent, nonces[0], admit)
		return err
	})

	return turn, state, err
}

// scope returns whose tools a model call offers.
func (c *Caller) scope(key domain.TurnKey, turn domain.OpenedTurn) tools.Scope {
	return tools.Scope{
		Session: turn.Session, Mode: turn.Chat.Mode, Headless: turn.Chat.Headless,
		LoopID: key.LoopID, Depth: turn.Loop.Depth, Only: turn.Loop.Only, Profile: c.Profile(turn.Session),
	}
}

// reported returns the result of a turn that an earlier attempt closed.
func (c *Caller) reported(ctx context.Context, key domain.TurnKey, turn domain.OpenedTurn) (contract.CallModelOut, error) {
	calls, asked, err := c.Store.FinishedCalls(ctx, turn.EntryID)
	if err != nil {
		return contract.CallModelOut{}, err
	}

	set := c.Plans.Tools.For(ctx, c.scope(key, turn))

	if turn.Status == domain.TurnInterrupted {
		out := contract.CallModelOut{EntryID: turn.EntryID}
		outputLimitReached(&out)

		return out, nil
	}

	out := contract.CallModelOut{
		EntryID: turn.EntryID, Outcome: contract.OutcomeCompleted,
		Calls: c.scheduled(ctx, turn.Session, set, calls), Parallel: c.Plans.Parallel, Asked: asked,
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
	*Caller
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

	m.stream = stream.New(keep, m.turn, m.Log, m.Store, abort)

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

	out.Calls, out.Parallel = m.scheduled(ctx, m.turn.Session, m.tools, closing.Calls), m.Plans.Parallel
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

	return m.Fast.EndChat(ctx, m.key, out, domain.FinishCompleted), nil
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

// planned returns a call as the ledger enters it, before anything is decided about it.
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

// settled returns a call that is not carried out, for the reason that the model reads.
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

	err := m.Store.CloseTurn(ctx, m.closing(domain.TurnInterrupted, blocks))
	switch {
	case errors.Is(err, domain.ErrFenced):
		return out, nil // the end of the chat was quicker
	case err != nil:
		return out, err
	default:
		return m.Fast.EndChat(ctx, m.key, out, domain.FinishInterrupted), nil
	}
}

// tooLong closes the turn of a prompt that the server refused for its length: the
// history is compacted and the call made once more, as a new turn.
func (m *modelCall) tooLong(ctx context.Context, cause error, blocks []domain.Block) (contract.CallModelOut, error) {
	closing := m.closing(domain.TurnFailed, blocks)
	closing.FailureReason = domain.CleanText(modelretry.Reason(cause))

	err := m.Store.CloseTurn(ctx, closing)
	if errors.Is(err, domain.ErrFenced) {
		return m.fenced()
	}

	return contract.CallModelOut{
		EntryID: m.turn.EntryID, Outcome: contract.OutcomeNeedsCompaction, Compact: domain.CompactOverflow,
	}, err
}
