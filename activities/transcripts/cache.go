// Package transcripts caches the transcripts of running loops. Model calls read them, and
// the steps that close turns and record tool calls keep them current.
package transcripts

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"everloop/domain"
)

// Bounds of the transcripts that a process keeps.
const (
	maxBytes = 32 << 20 // of text, of all loops together
	maxIdle  = 5 * time.Minute
)

// Cache keeps the transcripts of running loops, with what this process has added to them: a
// chat of n steps would otherwise read n²/2 turns. A loop whose newest turn this process has
// closed, and whose calls it has recorded, is not read at all. Otherwise everything after
// the turns that cannot change any more is read, and whether a compaction came in between.
type Cache struct {
	Read      func(ctx context.Context, q domain.TranscriptQuery) (domain.Transcript, error)
	Failovers func() int // of the database that this process has seen; nil: none

	once sync.Once
	kept atomic.Pointer[otter.Cache[loopKey, Loop]] // nil: nothing was kept yet
}

// loopKey names a loop of a chat.
type loopKey struct {
	chatID domain.ChatID
	loopID string
	// failovers of the database before the loop was read: the new primary may lack turns.
	failovers int
}

// Loop is the cached transcript of a loop. Calls of its last turn may still run.
type Loop struct {
	branchID   domain.BranchID
	transcript domain.Transcript

	// Of the loop's last model call.
	Requested string
	Model     domain.Model
}

// Current reports whether nothing is missing: the newest entry is cached, and so are the
// results of its calls.
func (m Loop) Current(branchID domain.BranchID, newest string) bool {
	turns := m.transcript.Turns
	return len(turns) > 0 && m.branchID == branchID && string(turns[len(turns)-1].ID) == newest && finalTurns(turns) == len(turns)
}

// Overhead of a block and of a call in bytes, about as they are stored.
const (
	blockFrame = 95
	callFrame  = 60
)

// Weight returns the size of the loop's next prompt, as a domain.ContextWeight without its
// limits. The size is known once a model server has reported the size of a prompt.
func (m Loop) Weight() (w domain.ContextWeight, known bool) {
	for i := len(m.transcript.Turns) - 1; i >= 0; i-- {
		turn := m.transcript.Turns[i]
		if turn.Sequence <= m.transcript.CompactedAt {
			break
		}

		for _, part := range turn.Parts {
			w.Bytes += int64(blockFrame + len(part.Text))
			if part.ImageURL != nil {
				w.Images++
			}
		}

		for _, block := range turn.Blocks {
			w.Bytes += int64(blockFrame + len(block.Content))
		}

		for _, call := range turn.Calls {
			w.Bytes += int64(callFrame + len(call.Arguments) + len(call.Result))
			w.Images += int64(len(call.Images))
		}

		if turn.InputTokens > 0 {
			w.Reported = turn.InputTokens
			return w, true
		}
	}

	return w, false
}

func (c *Cache) open() *otter.Cache[loopKey, Loop] {
	c.once.Do(func() {
		c.kept.Store(otter.Must(&otter.Options[loopKey, Loop]{
			MaximumWeight:    maxBytes,
			Weigher:          func(_ loopKey, m Loop) uint32 { return transcriptBytes(m.transcript) },
			ExpiryCalculator: otter.ExpiryAccessing[loopKey, Loop](maxIdle),
		}))
	})

	return c.kept.Load()
}

// Loop returns what is cached of a loop.
func (c *Cache) Loop(chatID domain.ChatID, loopID string) (Loop, bool) {
	return c.open().GetIfPresent(c.key(chatID, loopID))
}

// key returns the key of a loop, as the database is now.
func (c *Cache) key(chatID domain.ChatID, loopID string) loopKey {
	key := loopKey{chatID: chatID, loopID: loopID}
	if c.Failovers != nil {
		key.failovers = c.Failovers()
	}

	return key
}

// Closed adds a turn that this process closed, after a model call with the transcript before.
// Where the turn exists, so does the transcript that it was asked with.
func (c *Cache) Closed(
	opened domain.OpenedTurn, before domain.Transcript, model domain.Model, closing domain.ClosingTurn,
) {
	turn := domain.TranscriptTurn{
		ID:             opened.EntryID,
		Sequence:       opened.Sequence,
		Role:           domain.RoleAssistant,
		Status:         closing.Status,
		ChatID:         closing.ChatID,
		Blocks:         closing.Blocks,
		Model:          closing.Model,
		InputTokens:    cmp.Or(closing.PromptTokens, closing.Usage.InputTokens),
		ReasoningField: closing.ReasoningField,
	}

	turn.ServerMembers = closing.ServerMembers

	for _, call := range closing.Calls {
		status, result := domain.CallPending, ""

		switch {
		case call.Questions != nil:
			status = domain.CallAwaitingAnswer
		case call.Settled != nil:
			status, result = call.Settled.Status, call.Settled.Result
		}

		turn.Calls = append(turn.Calls, domain.ToolCall{
			ID: call.ID, ToolName: call.ToolName, DisplayName: call.DisplayName, Arguments: call.Arguments,
			Status: status, Result: result, ServerCallID: call.ServerCallID, ServerMembers: call.ServerMembers,
		})
	}

	before.Turns = append(before.Turns[:len(before.Turns):len(before.Turns)], turn)
	c.open().Set(c.key(closing.ChatID, closing.LoopID), Loop{opened.BranchID, before, opened.Chat.RequestedModel(), model})
}

// Recorded adds the result of a call that this process has recorded.
func (c *Cache) Recorded(call domain.LedgerCall, done domain.FinishedCall) {
	cache := c.kept.Load()
	if cache == nil {
		return
	}

	cache.ComputeIfPresent(c.key(call.ChatID, call.LoopID), func(m Loop) (Loop, otter.ComputeOp) {
		last := len(m.transcript.Turns) - 1
		if last < 0 || m.transcript.Turns[last].ID != call.EntryID {
			return m, otter.CancelOp
		}

		m.transcript.Turns = slices.Clone(m.transcript.Turns) // readers of the old slice must not see the change
		turn := &m.transcript.Turns[last]

		turn.Calls = slices.Clone(turn.Calls)
		for i := range turn.Calls {
			if turn.Calls[i].ID == call.ID {
				turn.Calls[i].Status, turn.Calls[i].Result, turn.Calls[i].Images = done.Status, done.Result, done.Images
			}
		}

		return m, otter.WriteOp
	})
}

// Transcript returns the transcript of a loop, and reads nothing when the cached one ends with
// the newest entry.
func (c *Cache) Transcript(ctx context.Context, q domain.TranscriptQuery, newest string) (domain.Transcript, error) {
	kept, found := c.Loop(q.ChatID, q.LoopID)
	if found && kept.Current(q.BranchID, newest) {
		return kept.transcript, nil
	}

	return c.read(ctx, q)
}

// read reads what is new of the transcript of a loop.
func (c *Cache) read(ctx context.Context, q domain.TranscriptQuery) (domain.Transcript, error) {
	cache, key := c.open(), c.key(q.ChatID, q.LoopID)

	kept, found := cache.GetIfPresent(key)
	if found && kept.branchID != q.BranchID {
		kept = Loop{}
	}

	known := kept.transcript

	known.Turns = known.Turns[:finalTurns(known.Turns)]
	if len(known.Turns) > 0 {
		q.From = known.Turns[len(known.Turns)-1].Sequence + 1
	}

	transcript, err := c.Read(ctx, q)
	if err != nil {
		return transcript, err
	}

	if q.From > 0 && transcript.CompactionID != known.CompactionID {
		q.From = 0
		if transcript, err = c.Read(ctx, q); err != nil {
			return transcript, err
		}
	}

	if q.From > 0 {
		transcript.Turns = append(known.Turns[:len(known.Turns):len(known.Turns)], transcript.Turns...)
	}

	kept.branchID, kept.transcript = q.BranchID, transcript
	cache.Set(key, kept)

	return transcript, nil
}

// finalTurns counts the turns at the beginning that cannot change any more: they
// have ended, so has each of their calls, and each of their recordings is transcribed.
func finalTurns(turns []domain.TranscriptTurn) int {
	for i, turn := range turns {
		if turn.Status == domain.TurnStreaming || turn.Status == domain.TurnPaused {
			return i
		}

		if slices.ContainsFunc(turn.Parts, domain.ContentPart.Untranscribed) {
			return i
		}

		for _, call := range turn.Calls {
			if call.Status == domain.CallPending || call.Status == domain.CallAwaitingAnswer {
				return i
			}
		}
	}

	return len(turns)
}

func transcriptBytes(transcript domain.Transcript) uint32 {
	const each = 200 // of a turn's or a call's own fields

	bytes := each + len(transcript.Summary)
	for _, turn := range transcript.Turns {
		bytes += each + len(turn.ServerMembers)
		for _, part := range turn.Parts {
			bytes += each + len(part.Text)
		}

		for _, block := range turn.Blocks {
			bytes += each + len(block.Content)
		}

		for _, call := range turn.Calls {
			bytes += each*(1+len(call.Images)) + len(call.Arguments) + len(call.Result) + len(call.ServerCallID) + len(call.ServerMembers)
		}
	}

	return uint32(min(bytes, 1<<31))
}
