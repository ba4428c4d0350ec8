// Package compaction summarises the history of a session, so that its next prompt fits the
// context window of the model. What was decided and summarised so far is in the database.
// The package depends on no other step of a chat.
package compaction

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"everloop/activities/contract"
	"everloop/activities/prompt"
	"everloop/activities/tools"
	"everloop/domain"
	"everloop/domain/modelretry"
	"everloop/infra/events"
	"everloop/infra/model"
	"everloop/infra/postgres/transcript"
	"everloop/infra/tokens"
	"everloop/internal/durable"
)

// Compactor carries out compactions, and measures the context of sessions.
type Compactor struct {
	Store     *transcript.Store
	Models    *model.Client
	Tokens    *tokens.Counter
	Tools     *tools.Registry
	Profile   func(domain.Session) domain.Profile // how the agent of a session is set up
	Signals   *events.Signals                     // nil: no stop is received
	Retry     modelretry.Policy
	DrainTime time.Duration // how long a summary continues after its worker received its stop signal
	Logger    *slog.Logger

	running durable.Shared[contract.CompactIn, contract.CompactOut]
}

// Compact makes the next piece of a compaction's summary, and records the compaction with
// the last piece. The next attempt continues from what is stored, so that a session is either
// compacted or not, whenever a worker dies.
func (c *Compactor) Compact(ctx context.Context, in contract.CompactIn) (contract.CompactOut, error) {
	return c.running.Run(ctx, in, durable.AbandonAfter, func(ctx context.Context) (contract.CompactOut, error) {
		return c.compact(ctx, in)
	})
}

// Drain waits until no compaction runs, or ctx ends.
func (c *Compactor) Drain(ctx context.Context) { c.running.Wait(ctx) }

func (c *Compactor) compact(ctx context.Context, in contract.CompactIn) (contract.CompactOut, error) {
	var stopped <-chan struct{} // nil: no stop reaches it

	if in.ChatID != "" {
		// Watch before the flag is read, so that no stop falls in between.
		watched, unwatch := c.Signals.Watch(in.ChatID, in.TaskID)
		defer unwatch()

		stopped = watched
	}

	working, abort := durable.UntilInterrupted(ctx, stopped, c.DrainTime)
	defer abort(nil)

	a, out, err := c.open(ctx, in)
	if err != nil || a == nil {
		return out, err
	}

	if left := time.Until(a.Work.RetryAt); left > retryTolerance {
		return contract.CompactOut{Status: domain.CompactionRunning, Wait: contract.NewWait(left, in.Step, a.Work.Faults, "")}, nil
	}

	out, err = a.advance(working)
	if cause := context.Cause(working); err != nil && cause != nil {
		err = cause
	}

	if err == nil || errors.Is(err, context.Canceled) {
		return out, err
	}

	if errors.Is(err, durable.ErrStopped) {
		return contract.CompactOut{Status: domain.CompactionSkipped, Stopped: true}, nil
	}

	return a.failed(context.WithoutCancel(ctx), in, err)
}

// open returns the compaction to work on; nil: it has ended, with the result out.
func (c *Compactor) open(ctx context.Context, in contract.CompactIn) (a *attempt, out contract.CompactOut, err error) {
	opened, err := c.Store.OpenCompaction(ctx, domain.CompactionRequest{
		ID: in.CompactionID, SessionID: in.SessionID, ChatID: in.ChatID, LoopID: in.LoopID, Step: in.Step, Trigger: in.Trigger,
	})

	switch {
	case err != nil:
		return nil, out, err
	case opened.Stopped:
		return nil, contract.CompactOut{Status: domain.CompactionSkipped, Stopped: true}, nil
	case opened.Result.Status != domain.CompactionRunning:
		return nil, contract.CompactOut{Status: opened.Result.Status, Reason: opened.Result.Reason, Exhausted: opened.Exhausted}, nil
	}

	return &attempt{Compactor: c, OpenedCompaction: opened, sessionID: in.SessionID}, out, nil
}

// Fail ends a compaction whose worker was lost too often.
func (c *Compactor) Fail(ctx context.Context, in contract.FailCompactionIn) (contract.CompactOut, error) {
	a, out, err := c.open(ctx, in.CompactIn)
	if err != nil || a == nil {
		return out, err
	}

	return a.close(ctx, domain.CompactionFailed, in.Reason)
}

// sizes measures prompts.
func (c *Compactor) sizes() prompt.Sizes { return prompt.Sizes{Tokens: c.Tokens} }

// attempt is one try of one step of a compaction.
type attempt struct {
	*Compactor
	domain.OpenedCompaction
	sessionID domain.SessionID
	model     domain.Model
	turns     []domain.TranscriptTurn             // of the transcript when the compaction was planned, and since
	weights   map[domain.TurnID]prompt.TurnTokens // in the model's own tokens
	framed    float64                             // of the model's tokens to those counted here, for what a prompt starts with
	overhead  int64                               // counted tokens of the system prompt, the tools and the memories
	earlier   string                              // the summary that the history starts with
	limit     int64                               // the threshold
}

// retryTolerance is how much too early a model call may be made again: the clocks
// of two machines differ.
const retryTolerance = 250 * time.Millisecond

// failed ends an attempt without a summary, as a model call without an answer
// does. A compaction whose retries are over fails, and the model call is made all the same.
func (c *attempt) failed(ctx context.Context, in contract.CompactIn, cause error) (contract.CompactOut, error) {
	faults := domain.ModelFaults{Count: c.Work.Faults}
	if c.Work.Faults > 0 {
		faults.Age = time.Since(c.Work.FaultsSince)
	}

	v := modelretry.Judge(cause, faults, c.Retry.Limit(c.Chat.Trigger, c.Session.Setup))
	if errors.Is(cause, durable.ErrDraining) {
		v = modelretry.Interrupted(cause, durable.DrainPause)
	}

	if v.Final {
		out, err := c.close(ctx, domain.CompactionFailed, v.Reason)
		if v.Code == domain.CodeModelUnavailable {
			out.Code = v.Code
		}

		return out, err
	}

	if !v.Fault {
		return contract.CompactOut{}, durable.Retry(v.Code, v.Reason, v.Wait)
	}

	if c.Work.Faults++; c.Work.Faults == 1 {
		c.Work.FaultsSince = time.Now().UTC()
	}

	c.Work.RetryAt = time.Now().Add(v.Wait).UTC()
	c.Logger.Warn(
		"retrying summary", "session_id", c.sessionID, "compaction_id", c.ID, "faults", c.Work.Faults, "wait", v.Wait, "error", v.Reason,
	)

	if err := c.Store.DelayCompaction(ctx, in.ChatID, c.OpenedCompaction, v.Waiting); err != nil {
		return contract.CompactOut{}, err
	}

	return contract.CompactOut{Status: domain.CompactionRunning, Wait: contract.NewWait(v.Wait, in.Step, c.Work.Faults, v.Kind)}, nil
}

// advance plans the compaction, or continues with its plan, and makes one piece of
// the summary.
func (c *attempt) advance(ctx context.Context) (contract.CompactOut, error) {
	if err := c.read(ctx); err != nil {
		return contract.CompactOut{}, err
	}

	if !c.Work.Planned {
		if reason := c.plan(); reason != "" {
			return c.close(ctx, domain.CompactionSkipped, reason)
		}

		if err := c.Store.AdvanceCompaction(ctx, c.ID, c.Work); err != nil {
			return contract.CompactOut{}, err
		}
	}

	if err := c.summarise(ctx, c.left()); err != nil {
		return contract.CompactOut{}, err
	}

	c.Work.Faults, c.Work.FaultsSince, c.Work.RetryAt = 0, time.Time{}, time.Time{}
	if len(c.left()) > 0 {
		return contract.CompactOut{Status: domain.CompactionRunning}, c.Store.AdvanceCompaction(ctx, c.ID, c.Work)
	}

	c.keepPlan()

	return c.close(ctx, domain.CompactionCompleted, "")
}

// read reads the transcript and measures it.
func (c *attempt) read(ctx context.Context) (err error) {
	if c.model, err = c.Models.Resolve(ctx, c.Chat.RequestedModel()); err != nil {
		return modelretry.ListFault(err)
	}

	transcript, err := c.Store.Transcript(ctx, domain.TranscriptQuery{
		ChatID: c.Chat.ID, BranchID: c.BranchID, LoopID: c.LoopID, Before: endOfBranch,
	})
	if err != nil {
		return err
	}

	if c.Work.Planned && transcript.CompactionID != c.Work.BaseID {
		// Another one was quicker: closing finds that too, and says so.
		transcript = domain.Transcript{CompactionID: transcript.CompactionID}
	}

	if !c.Work.Planned {
		c.Work.BaseID, c.Work.Upto = transcript.CompactionID, -1
	}

	c.turns, c.earlier = transcript.Turns, transcript.Summary
	c.measure(ctx, transcript)

	return nil
}

// endOfBranch is behind every sequence.
const endOfBranch = int64(1) << 62

// measure estimates the transcript in the model's own tokens. The sizes of two prompts
// that a server has reported give the size of the turns between them; only how that is
// divided among them, and what came since, is counted here.
func (c *attempt) measure(ctx context.Context, transcript domain.Transcript) {
	profile := c.Profile(c.Session)
	c.limit = profile.Compaction.Threshold(c.model.ContextWindow)

	c.overhead = c.sizes().Overhead(c.model.ID, c.Chat, c.Loop, profile, c.offered(ctx, profile)).Total()
	c.overhead += c.sizes().Recalled(c.model.ID, transcript.Recalled)

	c.weights = make(map[domain.TurnID]prompt.TurnTokens, len(transcript.Turns))
	c.framed = 1
	summary := c.summarySize(transcript.Summary)
	span, since := c.overhead+summary, 0 // what was said since the last report, and its first turn

	var first, all measured // up to the first report, and up to the last

	thinking := prompt.ReasoningFrom(transcript.Turns, c.model.ReasoningHistory)
	for i, t := range transcript.Turns {
		// Prompts from before the last compaction were of another make.
		if t.InputTokens > 0 && t.Model == c.model.ID && t.Sequence > transcript.CompactedAt {
			factor := factorOf(t.InputTokens-all.reported, span)
			c.rescale(transcript.Turns[since:i], factor)

			all = measured{all.counted + span, t.InputTokens}
			if first.reported == 0 {
				first, c.framed = all, factor
			}

			span, since = 0, i
		}

		c.weights[t.ID] = c.sizes().Turn(c.model.ID, t, i >= thinking)
		span += c.weights[t.ID].Total()
	}

	c.rescale(transcript.Turns[since:], ratioOf(first, all))
	c.leaveOutImages(transcript.Turns)
}

// leaveOutImages takes the images of results that the next prompt does not show off the
// measured turns. Earlier prompts, whose sizes servers reported, showed them.
func (c *attempt) leaveOutImages(turns []domain.TranscriptTurn) {
	for i, hidden := range prompt.ResultImagesLeftOut(c.model, turns) {
		id := turns[i].ID
		c.weights[id] = c.weights[id].Without(hidden)
	}
}

// measured is a size as it is counted here, and as a server has reported it.
type measured struct{ counted, reported int64 }

// ratioOf estimates the ratio of reported to counted tokens for what comes next: as for
// what came before, or as for a whole prompt while that was too little.
func ratioOf(first, all measured) float64 {
	const enough = 200 // tokens
	switch {
	case all.counted-first.counted >= enough:
		return factorOf(all.reported-first.reported, all.counted-first.counted)
	case all.reported > 0:
		return factorOf(all.reported, all.counted)
	default:
		return 1
	}
}

func (c *attempt) rescale(turns []domain.TranscriptTurn, factor float64) {
	for _, t := range turns {
		c.weights[t.ID] = c.weights[t.ID].Times(factor)
	}
}

// factorOf returns the ratio of reported to counted tokens, within bounds.
func factorOf(reported, counted int64) float64 {
	return min(max(float64(reported)/float64(max(counted, 1)), 0.25), 4)
}

func (c *attempt) summarySize(summary string) int64 { return c.sizes().Summary(c.model.ID, summary) }

// total returns the size of the context with these turns and this summary.
func (c *attempt) total(summary string, turns []domain.TranscriptTurn) int64 {
	sum := prompt.Scaled(c.overhead+c.summarySize(summary), c.framed)
	for _, t := range turns {
		sum += c.weights[t.ID].Total()
	}

	return sum
}

// close records the end of the compaction.
func (c *attempt) close(ctx context.Context, status domain.CompactionStatus, reason string) (contract.CompactOut, error) {
	done := domain.ClosingCompaction{
		ID: c.ID, SessionID: c.sessionID, Status: status, Reason: reason, Work: c.Work, Model: c.model.ID,
		ContextWindow: c.model.ContextWindow, Duration: time.Since(c.StartedAt), After: c.Work.Before,
	}
	switch status {
	case domain.CompactionCompleted:
		_, kept := c.split()
		done.After = c.total(c.Work.Summary, kept)
		below := done.After < c.limit
		done.Below = &below
	case domain.CompactionSkipped:
		if c.Trigger != domain.CompactManual { // the context is as large as it was
			below := false
			done.Below = &below
		}
	case domain.CompactionRunning, domain.CompactionFailed: // the context is as large as it was
	}

	result, exhausted, err := c.Store.CloseCompaction(ctx, done)

	return contract.CompactOut{Status: result.Status, Reason: result.Reason, Exhausted: exhausted}, err
}
