//go:build linux

package history_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/history"
)

const (
	waitFor = 3 * time.Minute
	tick    = 10 * time.Millisecond
)

// whatif sends a what-if and waits until its chat can start.
func (w *world) whatif(text string, ask domain.Whatif) domain.SendAck {
	w.t.Helper()

	send := domain.Send{SessionID: w.session.ID, Message: []domain.ContentPart{}, Whatif: &ask, Trigger: domain.TriggerWhatif}
	if text != "" {
		send.Message = words(text)
	}

	moves := w.log.moves()
	ack, err := w.service.Whatif(w.t.Context(), w.owner, send)
	require.NoError(w.t, err)
	require.Equal(w.t, domain.DeliverRun, ack.DeliveryApplied)
	require.Eventually(w.t, func() bool { return w.log.moves() > moves }, waitFor, tick)

	return ack
}

func TestWhatifRunsOnFromAStepWithItsFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.chat("first", w.writes("a.txt", "1"), w.writes("a.txt", "2")) // steps 1 to 3
	w.chat("second", w.writes("a.txt", "4"))                        // steps 4 and 5
	base := w.active()

	for step, want := range []struct {
		texts []string
		file  string
	}{
		{[]string{"first", "what if"}, ""},
		{[]string{"first", "step", "what if"}, "1"},
		{[]string{"first", "step", "step", "what if"}, "2"},
		{[]string{"first", "step", "step", "done", "what if"}, "2"},
		{[]string{"first", "step", "step", "done", "second", "step", "what if"}, "4"},
		{[]string{"first", "step", "step", "done", "second", "step", "done", "what if"}, "4"},
	} {
		ack := w.whatif("what if", domain.Whatif{FromStep: step})
		require.Equal(t, want.file, w.files()["a.txt"], "step %d", step)
		w.run(ack.ChatID, w.writes("a.txt", "other"))
		require.Equal(t, append(want.texts, "step", "done"), w.messages(), "step %d", step)
		w.switchTo(base)
		require.Equal(t, "4", w.files()["a.txt"])
	}

	for _, step := range []int{6, 100} {
		_, err := w.service.Whatif(t.Context(), w.owner, domain.Send{SessionID: w.session.ID, Whatif: &domain.Whatif{FromStep: step}})
		require.True(t, domain.HasCode(err, domain.CodeInvalidRequest), "%v", err)
	}

	tree, err := w.service.Tree(t.Context(), w.session.ID)
	require.NoError(t, err)
	require.Len(t, tree.Branches, 7)
	require.Equal(t, "whatif", tree.Branches[1].Reason)
}

// active gives a checkpoint of the branch on which the session stands.
func (w *world) active() history.Checkpoint {
	list := w.checkpoints()
	return list[len(list)-1]
}

func (w *world) switchTo(k history.Checkpoint) {
	w.t.Helper()
	moves := w.log.moves()
	_, err := w.service.SwitchBranch(w.t.Context(), w.owner, w.session.ID, k.ID)
	require.NoError(w.t, err)
	// Its event follows the commit, and must not be taken for that of the next move.
	require.Eventually(w.t, func() bool { return w.log.moves() > moves }, waitFor, tick)
}

func TestWhatifWithoutAMessageSimplyRunsOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.chat("first", w.writes("a.txt", "1"), w.writes("a.txt", "2"))
	ack := w.whatif("", domain.Whatif{FromStep: 1})
	w.run(ack.ChatID)
	require.Equal(t, []string{"first", "step", "done"}, w.messages())
	require.Equal(t, "1", w.files()["a.txt"])
}

func TestWhatifDeprecatesEntries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.chat("first")
	w.chat("second")

	for location, wrong := range map[string]domain.Whatif{
		"body.whatif.deprecate_entry_ids[1]": {FromStep: 2, DeprecateEntryIDs: []domain.TurnID{one.TurnID, "unknown"}},
		"body.whatif.quotes[2].entry_id": {
			FromStep: 2, DeprecateEntryIDs: []domain.TurnID{one.TurnID},
			Quotes: []domain.Quote{{EntryID: one.TurnID, Text: "q"}, {Text: "q"}, {EntryID: "unknown", Text: "q"}},
		},
	} {
		_, err := w.service.Whatif(t.Context(), w.owner, domain.Send{SessionID: w.session.ID, Message: words("x"), Whatif: &wrong})
		require.True(t, domain.HasCode(err, domain.CodeInvalidRequest), "%v", err)
		require.Equal(t, location, domain.AsError(err).Fields[0].Location)
	}

	ack := w.whatif("third", domain.Whatif{FromStep: 2, DeprecateEntryIDs: []domain.TurnID{one.TurnID}})
	w.run(ack.ChatID)

	deprecated := map[domain.TurnID]bool{}

	require.NoError(t, w.j.Messages(t.Context(), w.session.ID, nil, 0, func(turn domain.Turn) error {
		deprecated[turn.ID] = turn.Deprecated
		return nil
	}))
	require.True(t, deprecated[one.TurnID])
	require.Len(t, deprecated, 6)

	var branch domain.BranchID
	require.NoError(t, w.j.Pool.QueryRow(t.Context(), `SELECT active_branch_id FROM sessions WHERE id = $1`, w.session.ID).Scan(&branch))
	transcript, err := w.j.Transcript(
		t.Context(),
		domain.TranscriptQuery{BranchID: branch, LoopID: domain.RootLoop, Before: 100, ChatID: ack.ChatID},
	)
	require.NoError(t, err)

	for _, turn := range transcript.Turns {
		require.NotEqual(t, one.TurnID, turn.ID, "a deprecated entry leaves the model's context")
	}

	require.Len(t, transcript.Turns, 5)
}

// Which entries a what-if leaves out is a fact of its branch and of those that
// come from it; the branch that was left is as it was.
func TestWhatif_deprecatesOnItsBranchOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.chat("first")
	w.chat("second")
	left := w.active()
	look := func() (shown, node, sent bool) {
		t.Helper()
		require.NoError(t, w.j.Messages(t.Context(), w.session.ID, nil, 0, func(turn domain.Turn) error {
			shown = shown || turn.Deprecated
			return nil
		}))
		tree, err := w.service.Tree(t.Context(), w.session.ID)
		require.NoError(t, err)

		for _, n := range tree.Nodes {
			node = node || n.Deprecated
		}

		var branch domain.BranchID
		require.NoError(t, w.j.Pool.QueryRow(t.Context(), `SELECT active_branch_id FROM sessions
			WHERE id = $1`, w.session.ID).Scan(&branch))
		transcript, err := w.j.Transcript(t.Context(), domain.TranscriptQuery{BranchID: branch, LoopID: domain.RootLoop, Before: 100})
		require.NoError(t, err)

		for _, turn := range transcript.Turns {
			sent = sent || turn.ID == one.TurnID
		}

		return shown, node, sent
	}
	is := func(deprecated bool) {
		t.Helper()

		shown, node, sent := look()
		require.Equal(t, []bool{deprecated, deprecated, !deprecated}, []bool{shown, node, sent})
	}

	is(false)

	ack := w.whatif("third", domain.Whatif{FromStep: 2, DeprecateEntryIDs: []domain.TurnID{one.TurnID}})
	w.run(ack.ChatID)
	is(true)

	made := w.active()
	w.switchTo(left)
	is(false)
	w.switchTo(made)
	is(true)
	w.whatif("fourth", domain.Whatif{FromStep: 3}) // a branch of the new one
	is(true)
}

func TestWhatifIsOneMessageHoweverOftenItIsSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.chat("first")
	send := domain.Send{
		SessionID:       w.session.ID,
		Message:         words("x"),
		ClientMessageID: "m1",
		Whatif:          &domain.Whatif{FromStep: 1},
		Trigger:         domain.TriggerWhatif,
	}
	ack, err := w.service.Whatif(t.Context(), w.owner, send)
	require.NoError(t, err)
	again, err := w.service.Whatif(t.Context(), w.owner, send)
	require.NoError(t, err)
	require.True(t, again.Duplicate)
	require.Equal(t, ack.ChatID, again.ChatID)
	require.Eventually(t, func() bool { return w.log.moves() == 1 }, waitFor, tick)
}
