package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
)

// CompactContext makes the next piece of a compaction's summary, and with the
// last one puts the compaction into the records. What was decided and summarised
// so far is kept there, so that whoever takes the work over goes on with it, and
// the session is either compacted or not, whenever a worker dies.
func (a *Activities) CompactContext(ctx context.Context, in contract.CompactIn) (contract.CompactOut, error) {
	defer durable.Heartbeat(ctx)()

	working, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	if in.ChatID != "" {
		// Watch before the flag is looked at, so that no stop falls in between.
		stopped, unwatch := a.watchStop(in.ChatID, in.TaskID)
		defer unwatch()
		go func() {
			select {
			case <-stopped:
				abort(errStopped)
			case <-working.Done():
			}
		}()
	}
	draining := activity.GetWorkerStopChannel(ctx)
	go func() {
		select {
		case <-draining:
			abort(errDraining)
		case <-working.Done():
		}
	}()
	opened, err := a.Compactions.OpenCompaction(ctx, compactionRequest(in))
	switch {
	case err != nil:
		return contract.CompactOut{}, err
	case opened.Stopped:
		return contract.CompactOut{Status: domain.CompactionSkipped, Stopped: true}, nil
	case opened.Result.Status != domain.CompactionRunning:
		return contract.CompactOut{Status: opened.Result.Status, Reason: opened.Result.Reason, Exhausted: opened.Exhausted}, nil
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
	again, retry := sortFault(ctx, err)
	if again {
		return contract.CompactOut{}, durable.Retry(CodeModelRetry, retry.Reason, time.Until(retry.At))
	}
	return c.close(context.WithoutCancel(ctx), domain.CompactionFailed, retry.Reason)
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
	sessionID string
	began     time.Time
	model     domain.Model
	turns     []domain.TranscriptTurn // what was told when the compaction was planned, and since
	weights   map[string]turnWeight
	ratio     float64 // of the model's tokens to those that are counted here
	frame     int64   // tokens of the system prompt and the tools
	earlier   string  // the summary that the history begins with
	limit     int64   // the threshold
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
	if len(c.left()) > 0 {
		return contract.CompactOut{Status: domain.CompactionRunning}, c.Compactions.AdvanceCompaction(ctx, c.ID, c.Work)
	}
	return c.close(ctx, domain.CompactionCompleted, "")
}

// read looks at the history and weighs it.
func (c *compaction) read(ctx context.Context) (err error) {
	if c.model, err = c.Models.Resolve(ctx, requested(c.Chat)); err != nil {
		return err
	}
	told, err := c.Turns.Transcript(ctx, domain.TranscriptQuery{ChatID: c.Chat.ID, BranchID: c.BranchID, LoopID: c.LoopID, Before: endOfBranch})
	if err != nil {
		return err
	}
	if c.Work.Planned && told.CompactionID != c.Work.BaseID {
		// Another one was quicker: closing finds that too, and says so.
		told = domain.Transcript{CompactionID: told.CompactionID}
	}
	if !c.Work.Planned {
		c.Work.BaseID, c.Work.Upto = told.CompactionID, -1
	}
	c.turns, c.earlier = told.Turns, told.Summary
	c.weigh(ctx, told)
	return nil
}

// endOfBranch is behind every sequence.
const endOfBranch = int64(1) << 62

// weigh sizes up the history in the model's own tokens: the newest prompt whose
// size the server has reported tells how these compare to what is counted here.
func (c *compaction) weigh(ctx context.Context, told domain.Transcript) {
	profile := c.Profiles.Profile(c.Session)
	c.limit = threshold(c.model, profile.Compaction)
	c.weights = make(map[string]turnWeight, len(told.Turns))
	c.frame = c.Activities.frame(c.model.ID, system(c.Chat, c.Loop, profile), c.offered(ctx, profile)).total()
	if len(told.Recalled) > 0 {
		c.frame += c.count(c.model.ID, reminded(told.Recalled))
	}
	c.ratio = 1
	sum := c.frame + c.summarySize(told.Summary)
	for _, t := range told.Turns {
		// Prompts from before the last compaction were of another make.
		if t.InputTokens > 0 && t.Model == c.model.ID && t.Sequence > told.CompactedAt {
			c.ratio = min(max(float64(t.InputTokens)/float64(sum), 0.25), 4)
		}
		c.weights[t.ID] = c.turnWeight(c.model.ID, t)
		sum += c.weights[t.ID].total()
	}
}

func (c *compaction) summarySize(summary string) int64 {
	if summary == "" {
		return 0
	}
	return c.count(c.model.ID, summarised(summary)) + perMessage
}

// own gives counted tokens as the model's server would report them.
func (c *compaction) own(counted int64) int64 { return int64(float64(counted) * c.ratio) }

// total is the size of the context with these turns and this summary.
func (c *compaction) total(summary string, turns []domain.TranscriptTurn) int64 {
	sum := c.frame + c.summarySize(summary)
	for _, t := range turns {
		sum += c.weights[t.ID].total()
	}
	return c.own(sum)
}

// close puts the compaction into the records.
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
	}
	result, exhausted, err := c.Compactions.CloseCompaction(ctx, done)
	return contract.CompactOut{Status: result.Status, Reason: result.Reason, Exhausted: exhausted}, err
}
