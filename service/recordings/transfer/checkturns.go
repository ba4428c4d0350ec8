package transfer

import (
	"encoding/json"

	"everloop/domain"
	"everloop/domain/transfer"
)

// turnCheck is what the turns are checked with, one after the other.
type turnCheck struct {
	branches  map[domain.BranchID]transfer.BranchRecord
	chats     ids
	entries   map[string]int64 // sequence by id
	calls     ids
	questions ids
	next      map[domain.BranchID]int64 // by branch
}

func (p *pack) checkTurns() error {
	c := turnCheck{
		branches:  map[domain.BranchID]transfer.BranchRecord{},
		chats:     ids{},
		entries:   map[string]int64{},
		calls:     ids{},
		questions: ids{},
		next:      map[domain.BranchID]int64{},
	}
	for _, b := range p.tree.Branches {
		c.branches[b.ID], c.next[b.ID] = b, b.ForkSequence
	}

	for _, chat := range p.tree.Chats {
		c.chats[string(chat.ID)] = true
	}

	err := p.entries(func(e transfer.EntryRecord) error {
		if p.turns++; p.turns > maxTurns {
			return badf("%s holds more than %d turns", turnsFile, maxTurns)
		}

		if p.calls += len(e.Calls); p.calls > maxAllCalls {
			return badf("%s holds more than %d tool calls", turnsFile, maxAllCalls)
		}

		if err := c.turn(e); err != nil {
			return err
		}

		p.wait(e)

		return nil
	})
	if err != nil {
		return err
	}

	for _, b := range p.tree.Branches {
		if b.ForkedFromID != nil {
			if _, known := c.entries[string(*b.ForkedFromID)]; !known {
				return badf("branch %q comes from a turn that is not in the archive", shorten(b.ID))
			}
		}

		if b.NextSequence != c.next[b.ID] {
			return badf("branch %q has not as many turns as it says", shorten(b.ID))
		}
	}

	return nil
}

// wait notes whether the chat of a turn waits for an answer. One that waits for a
// permission, or for the answer to a sub-agent, does not continue waiting: what would
// continue is not carried.
func (p *pack) wait(e transfer.EntryRecord) {
	for _, call := range e.Calls {
		if call.Question == nil || call.Question.State != "open" {
			continue
		}

		before, known := p.waiting[e.ChatID]
		p.waiting[e.ChatID] = (before || !known) && e.LoopID == domain.RootLoop && call.ToolName == "AskUserQuestion" &&
			call.Status == domain.CallAwaitingAnswer
	}
}

// parked reports that a chat continues waiting for its answer.
func (p *pack) parked(c transfer.ChatRecord) bool {
	return c.State == "parked" && p.waiting[c.ID] && p.session.Status == domain.SessionWaitingForInput
}

func (c *turnCheck) turn(e transfer.EntryRecord) error {
	if _, known := c.branches[e.BranchID]; !known {
		return badf("turn %q is on a branch that is not in the archive", shorten(e.ID))
	}

	for _, branch := range e.DeprecatedOn {
		if _, known := c.branches[branch]; !known {
			return badf("turn %q is left out of a branch that is not in the archive", shorten(e.ID))
		}
	}

	if e.Sequence != c.next[e.BranchID] {
		return badf("turn %q is not the next one of its branch", shorten(e.ID))
	}

	c.next[e.BranchID]++
	if _, twice := c.entries[string(e.ID)]; twice {
		return badf("two turns have the id %q", shorten(e.ID))
	}

	if err := (ids{}).add("the turns", string(e.ID)); err != nil {
		return err
	}

	if err := has(c.chats, "the chat of a turn,", &e.ChatID); err != nil {
		return err
	}

	if e.ParentID != nil {
		if before, known := c.entries[string(*e.ParentID)]; !known || before >= e.Sequence {
			return badf("the parent of turn %q does not come before it", shorten(e.ID))
		}
	}

	if e.LoopID != domain.RootLoop {
		if err := has(c.calls, "the loop of a turn,", &e.LoopID); err != nil {
			return err
		}
	}

	if err := has(c.calls, "the call that owns a turn,", e.ParentForkToolCallID); err != nil {
		return err
	}

	for _, err := range []error{
		oneOf("the kind of a turn", e.Kind, domain.KindMessage, domain.KindCompaction),
		oneOf("the role of a turn", e.Role, domain.RoleUser, domain.RoleAssistant, domain.RoleSystem),
		oneOf("the status of a turn", e.Status,
			domain.TurnStreaming, domain.TurnCompleted, domain.TurnPaused, domain.TurnFailed, domain.TurnInterrupted),
		oneOf("the reasoning field of a turn", e.ReasoningField, "", domain.ReasoningContent, domain.Reasoning),
	} {
		if err != nil {
			return err
		}
	}

	if !countable(maxTurns, e.Step) ||
		!countable(maxCount, e.InputTokens, e.OutputTokens, e.CacheRead, e.CacheWrite, e.DurationMS, e.ContextWindow) {
		return badf("turn %q has impossible numbers", shorten(e.ID))
	}

	if !domain.KeepableMembers(e.ServerMembers) {
		return badf("turn %q has server_members that cannot be stored", shorten(e.ID))
	}

	if len(e.Calls) > maxCalls {
		return badf("turn %q has more than %d tool calls", shorten(e.ID), maxCalls)
	}

	if e.Kind == domain.KindCompaction {
		var turn *domain.Turn
		if json.Unmarshal(e.Compaction, &turn) != nil || turn == nil {
			return badf("compaction %q cannot be read", shorten(e.ID))
		}
	} else if len(e.Compaction) > 0 && string(e.Compaction) != "null" {
		return badf("turn %q is not a compaction, but holds one", shorten(e.ID))
	}

	for _, call := range e.Calls {
		if err := c.call(call); err != nil {
			return err
		}
	}

	c.entries[string(e.ID)] = e.Sequence

	return nil
}

func (c *turnCheck) call(call transfer.CallRecord) error {
	if err := c.calls.add("the tool calls", call.ID); err != nil {
		return err
	}

	if err := oneOf(
		"the status of a tool call",
		call.Status,
		domain.CallPending,
		domain.CallDone,
		domain.CallError,
		domain.CallCancelled,
		domain.CallAwaitingAnswer,
	); err != nil {
		return err
	}

	if err := oneOf(
		"the phase of a tool call",
		call.Phase,
		domain.PhaseQueued,
		domain.PhaseRunning,
		domain.PhaseFinished,
		domain.PhaseUnknownOutcome,
	); err != nil {
		return err
	}

	if !domain.ConnectionsUsable(call.Connections) {
		return badf("the connections of tool call %q are not usable", shorten(call.ID))
	}

	if !domain.CallImagesUsable(call.Images) {
		return badf("the images of tool call %q are not usable", shorten(call.ID))
	}

	if !countable(maxCount, call.DurationMS) {
		return badf("tool call %q has impossible numbers", shorten(call.ID))
	}

	if call.ServerCallID != "" && !domain.KeepableCallID(call.ServerCallID) {
		return badf("tool call %q has a server_call_id that cannot be stored: too long, blank or with a NUL", shorten(call.ID))
	}

	if !domain.KeepableMembers(call.ServerMembers) {
		return badf("tool call %q has server_members that cannot be stored", shorten(call.ID))
	}

	if q := call.Question; q != nil {
		if err := c.questions.add("the questions", q.ID); err != nil {
			return err
		}

		return oneOf("the state of a question", q.State, "open", "answered", "cancelled")
	}

	return nil
}
