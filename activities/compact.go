package activities

import (
	"context"
	"errors"
	"time"

	"everloop/activities/contract"
	"everloop/activities/prompt"
	"everloop/domain"
	"everloop/internal/durable"
)

// CompactContext makes the next piece of a compaction's summary, and records the
// compaction with the last one. What was decided and summarised so far is in the
// database, so that the next attempt goes on with it, and the session is either compacted
// or not, whenever a worker dies.
func (a *Activities) CompactContext(ctx context.Context, in contract.CompactIn) (contract.CompactOut, error) {
	return a.shared.compactions.Run(ctx, in, durable.AbandonAfter, func(ctx context.Context) (contract.CompactOut, error) {
		return a.compactContext(ctx, in)
	})
}

func (a *Activities) compactContext(ctx context.Context, in contract.CompactIn) (contract.CompactOut, error) {
	var stopped <-chan struct{} // nil: no stop reaches it

	if in.ChatID != "" {
		// Watch before the flag is looked at, so that no stop falls in between.
		watched, unwatch := a.watchStop(in.ChatID, in.TaskID)
		defer unwatch()

		stopped = watched
	}

	working, abort := a.untilInterrupted(ctx, stopped)
	defer abort(nil)

	opened, err := a.Compactions.OpenCompaction(ctx, compactionRequest(in))
	switch {
	case err != nil:
		return contract.CompactOut{}, err
	case opened.Stopped:
		return contract.CompactOut{Status: domain.CompactionSkipped, Stopped: true}, nil
	case opened.Result.Status != domain.CompactionRunning:
		return contract.CompactOut{Status: opened.Result.Status, Reason: opened.Result.Reason, Exhausted: opened.Exhausted}, nil
	}

	if left := time.Until(opened.Work.RetryAt); left > retryTolerance {
		return contract.CompactOut{Status: domain.CompactionRunning, Wait: waitFor(left, in.Step, opened.Work.Faults, "")}, nil
	}

	c := &compaction{Activities: a, OpenedCompaction: opened, began: time.Now(), sessionID: in.SessionID}

	out, err := c.advance(working)
	if cause := context.Cause(working); err != nil && cause != nil {
		err = cause
	}

	if err == nil || errors.Is(err, context.Canceled) {
		return out, err
	}

	if errors.Is(err, errStopped) {
		return contract.CompactOut{Status: domain.CompactionSkipped, Stopped: true}, nil
	}

	return c.failed(context.WithoutCancel(ctx), in, err)
}

// retryTolerance is how much too early a model call may be made again: the clocks
// of two machines differ.
const retryTolerance = 250 * time.Millisecond

// failed ends an attempt without a summary, as modelCall.failed does one without
// an answer. A compaction whose time is over fails; its call is made all the same.
func (c *compaction) failed(ctx context.Context, in contract.CompactIn, cause error) (contract.CompactOut, error) {
	faults := domain.ModelFaults{Count: c.Work.Faults}
	if c.Work.Faults > 0 {
		faults.Age = time.Since(c.Work.FaultsSince)
	}

	v := judge(cause, faults, c.retryLimit(c.Chat, c.Session))
	if v.final {
		out, err := c.close(ctx, domain.CompactionFailed, v.reason)
		if v.code == domain.CodeModelUnavailable {
			out.Code = v.code
		}

		return out, err
	}

	if !v.fault {
		return contract.CompactOut{}, durable.Retry(v.code, v.reason, v.wait)
	}

	if c.Work.Faults++; c.Work.Faults == 1 {
		c.Work.FaultsSince = time.Now().UTC()
	}

	c.Work.RetryAt = time.Now().Add(v.wait).UTC()
	c.Logger.Warn(
		"retrying summary", "session_id", c.sessionID, "compaction_id", c.ID, "faults", c.Work.Faults, "wait", v.wait, "error", v.reason,
	)

	if err := c.Compactions.DelayCompaction(ctx, in.ChatID, c.OpenedCompaction, v.waiting); err != nil {
		return contract.CompactOut{}, err
	}

	return contract.CompactOut{Status: domain.CompactionRunning, Wait: waitFor(v.wait, in.Step, c.Work.Faults, v.kind)}, nil
}

func compactionRequest(in contract.CompactIn) domain.CompactionRequest {
	return domain.CompactionRequest{
		ID: in.CompactionID, SessionID: in.SessionID, ChatID: in.ChatID, LoopID: in.LoopID, Step: in.Step, Trigger: in.Trigger,
	}
}

// FailCompaction ends a compaction whose worker was lost too often.
func (a *Activities) FailCompaction(ctx context.Context, in contract.FailCompactionIn) (contract.CompactOut, error) {
	opened, err := a.Compactions.OpenCompaction(ctx, compactionRequest(in.CompactIn))
	switch {
	case err != nil:
		return contract.CompactOut{}, err
	case opened.Stopped:
		return contract.CompactOut{Status: domain.CompactionSkipped, Stopped: true}, nil
	case opened.Result.Status != domain.CompactionRunning:
		return contract.CompactOut{Status: opened.Result.Status, Reason: opened.Result.Reason, Exhausted: opened.Exhausted}, nil
	}

	c := &compaction{Activities: a, OpenedCompaction: opened, began: time.Now(), sessionID: in.SessionID}

	return c.close(ctx, domain.CompactionFailed, in.Reason)
}

// compaction is one try of one step of a compaction.
type compaction struct {
	*Activities
	domain.OpenedCompaction
	sessionID domain.SessionID
	began     time.Time
	model     domain.Model
	turns     []domain.TranscriptTurn             // of the transcript when the compaction was planned, and since
	weights   map[domain.TurnID]prompt.TurnTokens // in the model's own tokens
	framed    float64                             // of the model's tokens to those counted here, for what a prompt begins with
	overhead  int64                               // counted tokens of the system prompt, the tools and the memories
	earlier   string                              // the summary that the history begins with
	limit     int64                               // the threshold
}

// advance plans the compaction, or goes on with its plan, and makes one piece of
// the summary.
func (c *compaction) advance(ctx context.Context) (contract.CompactOut, error) {
	if err := c.read(ctx); err != nil {
		return contract.CompactOut{}, err
	}

	if !c.Work.Planned {
		if reason := c.plan(); reason != "" {
			return c.close(ctx, domain.CompactionSkipped, reason)
		}

		if err := c.Compactions.AdvanceCompaction(ctx, c.ID, c.Work); err != nil {
			return contract.CompactOut{}, err
		}
	}

	if err := c.summarise(ctx, c.left()); err != nil {
		return contract.CompactOut{}, err
	}

	c.Work.Faults, c.Work.FaultsSince, c.Work.RetryAt = 0, time.Time{}, time.Time{}
	if len(c.left()) > 0 {
		return contract.CompactOut{Status: domain.CompactionRunning}, c.Compactions.AdvanceCompaction(ctx, c.ID, c.Work)
	}

	c.keepPlan()

	return c.close(ctx, domain.CompactionCompleted, "")
}

// read reads the transcript and measures it.
func (c *compaction) read(ctx context.Context) (err error) {
	if c.model, err = c.Models.Resolve(ctx, requested(c.Chat)); err != nil {
		return modelAway(err)
	}

	transcript, err := c.Turns.Transcript(ctx, domain.TranscriptQuery{
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
func (c *compaction) measure(ctx context.Context, transcript domain.Transcript) {
	profile := c.Profiles.Profile(c.Session)
	c.limit = threshold(c.model, profile.Compaction)

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
func (c *compaction) leaveOutImages(turns []domain.TranscriptTurn) {
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

func (c *compaction) rescale(turns []domain.TranscriptTurn, factor float64) {
	for _, t := range turns {
		c.weights[t.ID] = c.weights[t.ID].Times(factor)
	}
}

// factorOf is the ratio of reported to counted tokens, within bounds.
func factorOf(reported, counted int64) float64 {
	return min(max(float64(reported)/float64(max(counted, 1)), 0.25), 4)
}

func (c *compaction) summarySize(summary string) int64 { return c.sizes().Summary(c.model.ID, summary) }

// total is the size of the context with these turns and this summary.
func (c *compaction) total(summary string, turns []domain.TranscriptTurn) int64 {
	sum := prompt.Scaled(c.overhead+c.summarySize(summary), c.framed)
	for _, t := range turns {
		sum += c.weights[t.ID].Total()
	}

	return sum
}

// close records the end of the compaction.
func (c *compaction) close(ctx context.Context, status domain.CompactionStatus, reason string) (contract.CompactOut, error) {
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

	result, exhausted, err := c.Compactions.CloseCompaction(ctx, done)

	return contract.CompactOut{Status: result.Status, Reason: result.Reason, Exhausted: exhausted}, err
}
