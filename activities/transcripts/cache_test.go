package transcripts

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// turnStore is a store of turns that notes from where it was read.
type turnStore struct {
	compaction string
	turns      []domain.TranscriptTurn
	reads      []int64
}

func (s *turnStore) Transcript(_ context.Context, q domain.TranscriptQuery) (domain.Transcript, error) {
	s.reads = append(s.reads, q.From)

	out := domain.Transcript{CompactionID: s.compaction}
	for _, turn := range s.turns {
		if turn.Sequence >= q.From && turn.Sequence < q.Before {
			out.Turns = append(out.Turns, turn)
		}
	}

	return out, nil
}

func (s *turnStore) add(status domain.ToolCallStatus) {
	n := int64(len(s.turns))
	s.turns = append(s.turns, domain.TranscriptTurn{
		ID: domain.TurnID(
			fmt.Sprint(n),
		),
		Sequence: n,
		Status:   domain.TurnCompleted,
		Calls:    []domain.ToolCall{{ID: fmt.Sprint("c", n), Status: status}},
	})
}

// The new primary lacks a turn of the former one, and has another at its place.
func TestCache_afterFailover(t *testing.T) {
	t.Parallel()

	var failovers int

	store := &turnStore{}
	a := &Cache{Read: store.Transcript, Failovers: func() int { return failovers }}
	read := func() []domain.TranscriptTurn {
		read, err := a.read(
			t.Context(), domain.TranscriptQuery{ChatID: "chat", BranchID: "branch", LoopID: domain.RootLoop, Before: 1 << 40},
		)
		require.NoError(t, err)

		return read.Turns
	}

	store.add(domain.CallDone)
	store.add(domain.CallDone)
	require.Len(t, read(), 2)

	store.turns = store.turns[:1]
	store.add(domain.CallDone)
	store.turns[1].ID = "another"
	failovers++

	require.Equal(t, store.turns, read())
}

func TestCache_reads_what_is_new(t *testing.T) {
	t.Parallel()

	store := &turnStore{}
	a := &Cache{Read: store.Transcript}
	read := func() []domain.TranscriptTurn {
		read, err := a.read(
			t.Context(), domain.TranscriptQuery{ChatID: "chat", BranchID: "branch", LoopID: domain.RootLoop, Before: 1 << 40},
		)
		require.NoError(t, err)
		require.Equal(t, store.turns, read.Turns)

		return read.Turns
	}

	store.add(domain.CallDone)
	store.add(domain.CallPending)
	read()

	store.turns[1].Calls = []domain.ToolCall{{ID: "c1", Status: domain.CallDone, Result: "late"}}
	store.add(domain.CallDone)

	first := read()

	store.add(domain.CallDone)
	read()
	require.Equal(t, []int64{0, 1, 3}, store.reads, "a turn with a call that has not ended is read again")
	require.Len(t, first, 3, "a transcript that was given out does not grow")

	store.compaction = "summary"
	store.turns = store.turns[2:]

	read()
	require.Equal(t, []int64{0, 1, 3, 4, 0}, store.reads, "after a compaction everything is read again")
}

func TestCache_is_of_one_loop_and_branch(t *testing.T) {
	t.Parallel()

	store := &turnStore{}
	store.add(domain.CallDone)
	a := &Cache{Read: store.Transcript}

	for _, q := range []domain.TranscriptQuery{
		{ChatID: "a", BranchID: "b", LoopID: "root"},
		{ChatID: "a", BranchID: "b2", LoopID: "root"},
		{ChatID: "a", BranchID: "b", LoopID: "fork"},
		{ChatID: "a2", BranchID: "b", LoopID: "root"},
	} {
		q.Before = 1 << 40
		read, err := a.read(t.Context(), q)
		require.NoError(t, err)
		require.Len(t, read.Turns, 1)
	}

	require.Equal(t, []int64{0, 0, 0, 0}, store.reads)
}

// A loop whose turns and results this process has written is not read again; anything
// that another process adds to it is.
func TestCache_Transcript_remembersOwnWrites(t *testing.T) {
	t.Parallel()

	store := &turnStore{turns: []domain.TranscriptTurn{{ID: "u", Role: domain.RoleUser, Status: domain.TurnCompleted}}}
	a := &Cache{Read: store.Transcript}
	key := domain.TurnKey{ChatID: "chat", LoopID: domain.RootLoop}
	read := func(newest string) domain.Transcript {
		out, err := a.Transcript(
			t.Context(), domain.TranscriptQuery{ChatID: "chat", BranchID: "b", LoopID: domain.RootLoop, Before: 1 << 40}, newest,
		)
		require.NoError(t, err)

		return out
	}
	answer := func(id domain.TurnID, sequence int64, before domain.Transcript) domain.TranscriptTurn {
		opened := domain.OpenedTurn{EntryID: id, BranchID: "b", Sequence: sequence}
		a.Closed(opened, before, domain.Model{ID: "m", ContextWindow: 1000}, domain.ClosingTurn{
			TurnKey: key,
			EntryID: id, Status: domain.TurnCompleted, Model: "m", Usage: domain.Usage{InputTokens: 100},
			Blocks: []domain.Block{{Type: domain.BlockText, Content: "hm"}},
			Calls:  []domain.PlannedCall{{ID: string(id) + "-c", ToolName: "Bash", Arguments: "{}"}},
		})

		return domain.TranscriptTurn{
			ID:          id,
			Sequence:    sequence,
			Role:        domain.RoleAssistant,
			Status:      domain.TurnCompleted,
			ChatID:      "chat",
			Model:       "m",
			InputTokens: 100,
			Blocks:      []domain.Block{{Type: domain.BlockText, Content: "hm"}},
			Calls: []domain.ToolCall{
				{ID: string(id) + "-c", ToolName: "Bash", Arguments: "{}", Status: domain.CallDone, Result: "ok"},
			},
		}
	}

	first := read("")
	store.turns = append(store.turns, answer("one", 1, first))
	kept, _ := a.Loop(key.ChatID, key.LoopID)
	require.False(t, kept.Current("b", "one"), "its call has not ended")
	a.Recorded(
		domain.LedgerCall{
			ID:      "one-c",
			ChatID:  "chat",
			LoopID:  domain.RootLoop,
			EntryID: "one",
		},
		domain.FinishedCall{Status: domain.CallDone, Result: "ok"},
	)

	reads := len(store.reads)
	second := read("one")
	require.Equal(t, store.turns, second.Turns)
	require.Len(t, store.reads, reads, "nothing is read")
	require.Len(t, first.Turns, 1, "a transcript that was given out does not change")

	kept, _ = a.Loop(key.ChatID, key.LoopID)
	w, known := kept.Weight()
	require.True(t, known)
	require.EqualValues(t, 100, w.Reported)
	require.EqualValues(t, blockFrame+len("hm")+callFrame+len("{}ok"), w.Bytes)

	for name, other := range map[string][2]domain.BranchID{
		"newer entry": {"b", "steered"}, "no entry": {"b", ""}, "branch": {"b2", "one"},
	} {
		require.False(t, kept.Current(other[0], string(other[1])), name)
	}

	store.turns = append(
		store.turns, domain.TranscriptTurn{ID: "steered", Sequence: 2, Role: domain.RoleUser, Status: domain.TurnCompleted},
	)
	require.Equal(t, store.turns, read("steered").Turns)
	require.EqualValues(t, 2, store.reads[len(store.reads)-1], "only what is new is read")
}
