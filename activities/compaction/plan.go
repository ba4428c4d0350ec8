package compaction

import (
	"context"
	"slices"
	"strings"

	"everloop/activities/tools"
	"everloop/domain"
)

// roomy is how full the context may be after a compaction, in percent of the
// threshold: above it, fewer turns are kept than the policy says, so that the
// next call does not need a compaction again.
const roomy = 60

// plan decides which turns are archived. Calls stay with their results, as turns
// are never split; what still waits for a result is never archived. It gives a
// reason when there is nothing to do.
func (c *attempt) plan() (reason string) {
	c.Work.Before = c.total(c.earlier, c.turns)
	keep := c.keep()
	c.Work.Pinned = nil

	c.Work.KeptFrom = 0
	if n := len(c.turns); n > 0 {
		c.Work.KeptFrom = c.turns[n-1].Sequence + 1
	}

	if from := len(c.turns) - keep; keep > 0 && len(c.turns) > 0 {
		c.Work.KeptFrom = c.turns[max(from, 0)].Sequence
	}

	if c.InChat || c.LoopID != domain.RootLoop {
		c.pin()
	}

	archived, _ := c.split()
	if len(archived) == 0 {
		return "there is nothing to summarise: only turns that stay as they are"
	}

	c.Work.Planned, c.Work.Count = true, len(archived)
	c.Work.ChatID = archived[len(archived)-1].ChatID

	return ""
}

// keep returns how many of the last turns stay as they are. The policy's number is
// kept to where the session has set one of its own. Else fewer are kept when
// there are no more turns than that and a client wants them summarised, and when
// they alone would fill the context.
func (c *attempt) keep() int {
	policy := c.Profile(c.Session).Compaction

	keep := min(policy.KeepLast, len(c.turns))
	if policy.KeepLast == domain.DefaultCompaction.KeepLast {
		if c.Trigger == domain.CompactManual && len(c.turns) <= keep {
			keep = 2
			if len(c.turns) <= keep && !c.InChat {
				keep = 0
			}
		}

		allowance := int64(c.summaryTokens())
		for keep > 0 && c.total("", c.turns[len(c.turns)-min(keep, len(c.turns)):])+allowance > c.limit*roomy/100 {
			keep--
		}
	}

	for i, t := range c.turns {
		if open(t) {
			keep = max(keep, len(c.turns)-i)
			break
		}
	}

	return keep
}

// open reports whether a turn still waits for something.
func open(t domain.TranscriptTurn) bool {
	return t.Status == domain.TurnStreaming || t.Status == domain.TurnPaused ||
		slices.ContainsFunc(t.Calls, func(call domain.ToolCall) bool {
			return call.Status == domain.CallPending || call.Status == domain.CallAwaitingAnswer
		})
}

// pin keeps what the user last said to a working loop, when it is not among the
// turns that stay: the agent works on it, word for word.
func (c *attempt) pin() {
	for i, t := range slices.Backward(c.turns) {
		if t.Role != domain.RoleUser {
			continue
		}

		if t.Sequence < c.Work.KeptFrom {
			c.Work.Pinned = &c.turns[i].Sequence
		}

		return
	}
}

// split returns the turns that are archived and those that stay.
func (c *attempt) split() (archived, kept []domain.TranscriptTurn) {
	for _, t := range c.turns {
		if t.Sequence >= c.Work.KeptFrom || c.Work.Pinned != nil && t.Sequence == *c.Work.Pinned {
			kept = append(kept, t)
		} else {
			archived = append(archived, t)
		}
	}

	return archived, kept
}

// left gives the turns that the summary does not hold yet. A turn that stays is
// shown in its place: what comes after it answers it.
func (c *attempt) left() []domain.TranscriptTurn {
	var left []domain.TranscriptTurn

	for _, t := range c.turns {
		if t.Sequence > c.Work.Upto && t.Sequence < c.Work.KeptFrom {
			left = append(left, t)
		}
	}

	return left
}

// planHeading comes before the plan behind a summary.
const planHeading = "\n\nThe newest plan, word for word:\n"

// keepPlan puts the newest plan behind the summary when it is not among the turns
// that stay: who carries it out must not work from a summary of it. The summary
// that this history starts with may have brought it along.
func (c *attempt) keepPlan() {
	_, plan, _ := strings.Cut(c.earlier, planHeading)
	for _, t := range c.turns {
		if handed := planOf(t); handed != "" {
			plan = handed
			if t.Sequence >= c.Work.KeptFrom {
				plan = ""
			}
		}
	}

	if plan != "" && c.Tokens.Count(c.model.ID, plan) <= c.summaryTokens() {
		c.Work.Summary += planHeading + plan
	}
}

// planOf returns the last plan that a turn submits.
func planOf(t domain.TranscriptTurn) (plan string) {
	for _, b := range t.Blocks {
		if b.Type == domain.BlockPlan {
			plan = b.Content
		}
	}

	return plan
}

// offered returns the tools that the loop's model calls offer.
func (c *attempt) offered(ctx context.Context, profile domain.Profile) []domain.ToolSpec {
	return c.Tools.For(ctx, tools.Scope{
		Session: c.Session, Mode: c.Chat.Mode, Headless: c.Chat.Headless, LoopID: c.LoopID,
		Depth: c.Loop.Depth, Only: c.Loop.Only, Profile: profile,
	}).Offered()
}
