package transcript_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
	"everloop/infra/postgres/transcript"
	"everloop/internal/testkit"
	"everloop/service/accounts"
)

// compacted archives all but the last turns of a history.
func compacted(
	tb testing.TB,
	j *postgres.Store,
	session domain.Session,
	chat domain.ChatID,
	step int,
	keptFrom int64,
	pinned *int64,
) domain.OpenedCompaction {
	tb.Helper()

	ctx := context.Background()
	c, err := j.OpenCompaction(
		ctx,
		domain.CompactionRequest{SessionID: session.ID, ChatID: chat, LoopID: domain.RootLoop, Step: step, Trigger: domain.CompactAuto},
	)
	require.NoError(tb, err)
	require.Equal(tb, domain.CompactionRunning, c.Result.Status)

	transcript, err := j.Transcript(
		ctx,
		domain.TranscriptQuery{ChatID: chat, BranchID: session.ActiveBranchID, LoopID: domain.RootLoop, Before: 1 << 40},
	)
	require.NoError(tb, err)

	below := true
	_, _, err = j.CloseCompaction(ctx, domain.ClosingCompaction{
		ID: c.ID, SessionID: session.ID, Status: domain.CompactionCompleted, After: 10, Below: &below, Model: "m", ContextWindow: 1000,
		Work: domain.CompactionWork{
			Planned:  true,
			BaseID:   transcript.CompactionID,
			KeptFrom: keptFrom,
			Pinned:   pinned,
			Count:    5,
			Before:   100,
			Summary:  fmt.Sprintf("summary %d", step),
			Usage:    domain.Usage{InputTokens: 7, OutputTokens: 3},
		},
	})
	require.NoError(tb, err)

	return c
}

func TestATranscriptBeginsAtTheNewestSummary(t *testing.T) {
	t.Parallel()
	j, log, session := pgtest.Session(t)
	chat := pgtest.History(t, j, session, 20)
	query := domain.TranscriptQuery{ChatID: chat, BranchID: session.ActiveBranchID, LoopID: domain.RootLoop, Before: 1 << 40}
	transcript := func() (summary string, sequences []int64) {
		got, err := j.Transcript(t.Context(), query)
		require.NoError(t, err)

		for _, turn := range got.Turns {
			sequences = append(sequences, turn.Sequence)
			require.Len(t, turn.Calls, int(turn.Sequence%2), "calls stay with their turn")
		}

		return got.Summary, sequences
	}
	summary, all := transcript()
	require.Empty(t, summary)
	require.Len(t, all, 20)

	first := compacted(t, j, session, chat, 1, 14, nil)
	summary, kept := transcript()
	require.Equal(t, "summary 1", summary)
	require.Equal(t, []int64{14, 15, 16, 17, 18, 19}, kept)

	pinned := int64(14)
	compacted(t, j, session, chat, 2, 19, &pinned)

	summary, kept = transcript()
	require.Equal(t, "summary 2", summary)
	require.Equal(t, []int64{14, 19}, kept)

	// Nothing is deleted, and the entries are in the list.
	kinds := map[string]int{}

	require.NoError(t, j.Messages(t.Context(), session.ID, nil, 0, func(turn domain.Turn) error {
		kinds[turn.Kind]++
		return nil
	}))
	require.Equal(t, map[string]int{domain.KindMessage: 20, domain.KindCompaction: 2}, kinds)
	require.NoError(t, j.Flush(t.Context()))
	require.Equal(t, []string{domain.EventSessionCompacted, domain.EventSessionCompacted}, log.Names())

	// A branch that was left before the last summary has the first in its prompt.
	query.Before = 21
	summary, kept = transcript()
	require.Equal(t, "summary 1", summary)
	require.Len(t, kept, 6)

	// A compaction ends once, although its end is asked for again.
	again, _, err := j.CloseCompaction(
		t.Context(),
		domain.ClosingCompaction{ID: first.ID, SessionID: session.ID, Status: domain.CompactionFailed},
	)
	require.NoError(t, err)
	require.Equal(t, domain.CompactionCompleted, again.Status)
	opened, err := j.OpenCompaction(
		t.Context(),
		domain.CompactionRequest{SessionID: session.ID, ChatID: chat, LoopID: domain.RootLoop, Step: 1, Trigger: domain.CompactAuto},
	)
	require.NoError(t, err)
	require.Equal(t, first.ID, opened.ID)
	require.Equal(t, domain.CompactionCompleted, opened.Result.Status)

	var input, output int64
	require.NoError(t, j.Pool.QueryRow(t.Context(), `SELECT input_tokens, output_tokens FROM chats
		WHERE id = $1`, chat).Scan(&input, &output))
	require.Equal(t, []int64{14, 6}, []int64{input, output}, "what summaries cost counts in the chat")
	n, err := j.CountCompactions(t.Context(), session.ActiveBranchID)
	require.NoError(t, err)
	require.Equal(t, 2, n)
}

func TestTranscript_from_a_turn_on(t *testing.T) {
	t.Parallel()
	j, _, session := pgtest.Session(t)
	chat := pgtest.History(t, j, session, 10)
	compacted(t, j, session, chat, 1, 4, nil)

	read := func(from int64) domain.Transcript {
		transcript, err := j.Transcript(t.Context(), domain.TranscriptQuery{
			ChatID: chat, BranchID: session.ActiveBranchID, LoopID: domain.RootLoop, Before: 1 << 40, From: from,
		})
		require.NoError(t, err)

		return transcript
	}

	whole, part, nothing := read(0), read(7), read(1<<30)
	require.Len(t, whole.Turns, 6)
	require.Equal(t, whole.Turns[3:], part.Turns)
	require.Empty(t, nothing.Turns)

	for _, transcript := range []domain.Transcript{part, nothing} {
		require.Equal(t, whole.Summary, transcript.Summary)
		require.Equal(t, whole.CompactionID, transcript.CompactionID)
		require.Equal(t, whole.CompactedAt, transcript.CompactedAt)
	}
}

func TestACompactionThatComesTooLateIsSkipped(t *testing.T) {
	t.Parallel()
	j, _, session := pgtest.Session(t)
	chat := pgtest.History(t, j, session, 10)
	late, err := j.OpenCompaction(
		t.Context(),
		domain.CompactionRequest{SessionID: session.ID, ChatID: chat, LoopID: domain.RootLoop, Step: 1, Trigger: domain.CompactAuto},
	)
	require.NoError(t, err)
	compacted(t, j, session, chat, 2, 6, nil)
	result, _, err := j.CloseCompaction(t.Context(), domain.ClosingCompaction{
		ID: late.ID, SessionID: session.ID, Status: domain.CompactionCompleted, Work: domain.CompactionWork{KeptFrom: 2, Summary: "late"},
	})
	require.NoError(t, err)
	require.Equal(t, domain.CompactionSkipped, result.Status)
	require.Equal(t, "another compaction was quicker", result.Reason)
}

// A client that asked for a compaction waits for its event, also when nothing was summarised.
func TestSkippedCompaction_thatWasAskedFor_isAnnounced(t *testing.T) {
	t.Parallel()
	j, log, session := pgtest.Session(t)
	chat := pgtest.History(t, j, session, 4)
	require.NoError(t, j.Flush(t.Context()))

	before := len(log.Names())

	ofChat, err := j.OpenCompaction(t.Context(), domain.CompactionRequest{
		SessionID: session.ID, ChatID: chat, LoopID: domain.RootLoop, Step: 1, Trigger: domain.CompactAuto,
	})
	require.NoError(t, err)

	var owner string

	require.NoError(t, j.Pool.QueryRow(t.Context(), `SELECT owner_id FROM sessions WHERE id = $1`, session.ID).Scan(&owner))

	ofClient, err := j.RequestCompaction(t.Context(), owner, session.ID)
	require.NoError(t, err)

	for _, id := range []string{ofChat.ID, ofClient.ID, ofClient.ID} { // the second time it has ended
		_, _, err = j.CloseCompaction(t.Context(), domain.ClosingCompaction{
			ID: id, SessionID: session.ID, Status: domain.CompactionSkipped, Reason: "there is nothing",
		})
		require.NoError(t, err)
	}

	require.NoError(t, j.Flush(t.Context()))
	require.Equal(t, []string{domain.EventCompactionSkip}, log.Names()[before:])
}

func TestTwoCompactionsInARowThatDoNotHelp(t *testing.T) {
	t.Parallel()
	j, _, session := pgtest.Session(t)
	chat := pgtest.History(t, j, session, 4)
	above, under := false, true
	end := func(step int, below *bool) bool {
		c, err := j.OpenCompaction(
			t.Context(),
			domain.CompactionRequest{SessionID: session.ID, ChatID: chat, LoopID: domain.RootLoop, Step: step, Trigger: domain.CompactAuto},
		)
		require.NoError(t, err)
		_, exhausted, err := j.CloseCompaction(
			t.Context(),
			domain.ClosingCompaction{ID: c.ID, SessionID: session.ID, Status: domain.CompactionSkipped, Below: below},
		)
		require.NoError(t, err)

		return exhausted
	}
	require.False(t, end(1, &above))
	require.False(t, end(2, nil), "one that came too late does not count")
	require.True(t, end(3, &above))
	require.False(t, end(4, &under))
	require.False(t, end(5, &above))
}

func TestWeigh(t *testing.T) {
	t.Parallel()
	j, _, session := pgtest.Session(t)
	chat := pgtest.History(t, j, session, 10)
	key := domain.TurnKey{SessionID: session.ID, ChatID: chat, LoopID: domain.RootLoop, Step: 99}
	w, err := j.Weigh(t.Context(), key)
	require.NoError(t, err)
	require.True(t, w.Running)
	require.False(t, w.Opened)
	require.EqualValues(t, 1000, w.Reported)
	require.InDelta(t, 1150, w.Bytes, 150, "the last answer and its result")
	compacted(t, j, session, chat, 1, 8, nil)
	w, err = j.Weigh(t.Context(), key)
	require.NoError(t, err)
	require.Zero(t, w.Reported, "prompts from before the summary say nothing")
	require.InDelta(t, 1700, w.Bytes, 200)

	before := w.Bytes
	_, err = j.Pool.Exec(t.Context(), `UPDATE entries SET server_members = repeat('x', 3000) WHERE id = (
		SELECT id FROM entries WHERE chat_id = $1 AND kind = 'message' AND role = 'assistant' ORDER BY sequence DESC LIMIT 1)`, chat)
	require.NoError(t, err)
	_, err = j.Pool.Exec(t.Context(), `UPDATE tool_calls SET server_members = repeat('x', 2000) WHERE entry_id = (
		SELECT id FROM entries WHERE chat_id = $1 AND kind = 'message' AND role = 'assistant' ORDER BY sequence DESC LIMIT 1)`, chat)
	require.NoError(t, err)
	w, err = j.Weigh(t.Context(), key)
	require.NoError(t, err)
	require.EqualValues(t, before+5000, w.Bytes, "what the model server sent with the turn and with its call")

	_, err = j.Pool.Exec(t.Context(), `UPDATE chats SET stop_requested = true WHERE id = $1`, chat)
	require.NoError(t, err)
	w, err = j.Weigh(t.Context(), key)
	require.NoError(t, err)
	require.False(t, w.Running)
}

// What a model call reads of a session with 10,000 turns that was compacted is
// what was kept: by index, and quick.
func TestOldSessionsAreAsQuickAsNewOnes(t *testing.T) {
	t.Parallel()
	j, _, session := pgtest.Session(t)

	const turns = 10_000

	chat := pgtest.History(t, j, session, turns)
	compacted(t, j, session, chat, 1, turns-6, nil)
	query := domain.TranscriptQuery{ChatID: chat, BranchID: session.ActiveBranchID, LoopID: domain.RootLoop, Before: 1 << 40}
	best := time.Hour

	for range 10 {
		began := time.Now()
		got, err := j.Transcript(t.Context(), query)
		best = min(best, time.Since(began))

		require.NoError(t, err)
		require.Len(t, got.Turns, 6)
	}

	t.Logf("transcript of a compacted session with %d turns: %s", turns, best)

	for name, statement := range transcript.ContextStatements() {
		plan := explain(t, j, statement, session.ActiveBranchID, domain.RootLoop, int64(1)<<40, chat, int64(0))
		require.NotContains(t, plan, "Seq Scan on entries", name)
		require.NotContains(t, plan, "Seq Scan on tool_calls", name)
		require.Contains(t, plan, "entries_compacted", name)
		require.Contains(t, plan, "entries_loop", name)

		for line := range strings.Lines(plan) {
			if strings.Contains(line, "Rows Removed by Filter") {
				var n int

				_, err := fmt.Sscanf(strings.TrimSpace(line), "Rows Removed by Filter: %d", &n)
				require.NoError(t, err)
				require.Less(t, n, 50, "%s reads what it does not need:\n%s", name, plan)
			}
		}
	}
}

func explain(t *testing.T, db *postgres.Store, statement string, args ...any) string {
	t.Helper()
	_, err := db.Pool.Exec(t.Context(), `ANALYZE entries; ANALYZE tool_calls`)
	require.NoError(t, err)
	rows, _ := db.Pool.Query(t.Context(), `EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) `+statement, args...)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)

	return strings.Join(lines, "\n")
}

// BenchmarkTranscript reads what a model call is sent of a session of 10,000
// turns that was compacted.
func BenchmarkTranscript(b *testing.B) {
	db, err := postgres.Open(b.Context(), testkit.Postgres(b), postgres.Options{MaxConns: 4})
	require.NoError(b, err)
	b.Cleanup(db.Close)
	j := postgres.NewStore(db, &pgtest.Log{}, nil)
	user := domain.User{ID: domain.NewID(), Username: "owner"}
	_, _, err = accounts.New(db.DB).CreateUser(
		b.Context(),
		user,
		domain.APIKey{ID: domain.NewID(), UserID: user.ID, Name: "k", Masked: "m"},
		make([]byte, 32),
	)
	require.NoError(b, err)
	session, err := db.CreateSession(b.Context(), user.ID, domain.NewSession{})
	require.NoError(b, err)
	chat := pgtest.History(b, j, session, 10_000)
	compacted(b, j, session, chat, 1, 10_000-6, nil)

	query := domain.TranscriptQuery{ChatID: chat, BranchID: session.ActiveBranchID, LoopID: domain.RootLoop, Before: 1 << 40}
	for b.Loop() {
		if _, err := j.Transcript(context.Background(), query); err != nil {
			b.Fatal(err)
		}
	}
}
