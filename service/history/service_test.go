//go:build linux

package history_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/prompt"
	"everloop/domain"
	"everloop/domain/history"
	"everloop/infra/objects"
)

func TestRewindTakesConversationAndFilesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.chat("first", w.writes("a.txt", "1"), w.writes("dir/b.txt", "2"))
	w.write("by-user.txt", "mine") // over REST, between chats
	two := w.chat("second", w.writes("a.txt", "changed"), func() { require.NoError(t, os.RemoveAll(filepath.Join(w.root, "dir"))) })
	end := map[string]string{"a.txt": "changed", "by-user.txt": "mine"}
	require.Equal(t, end, w.files())

	list := w.checkpoints()
	require.Len(t, list, 2, "one before each user turn, and no others")
	require.Equal(t, []domain.TurnID{one.TurnID, two.TurnID}, []domain.TurnID{list[0].TurnID, list[1].TurnID})
	require.Equal(t, []string{"first", "second"}, []string{list[0].Label, list[1].Label})
	require.EqualValues(t, 4, list[1].Sequence)
	require.EqualValues(t, 4, list[1].Messages)
	require.Equal(t, 3, list[1].Step)
	require.EqualValues(t, 32, list[1].Tokens)
	require.Nil(t, list[0].ParentID)
	require.Equal(t, list[0].ID, *list[1].ParentID)
	require.True(t, list[1].Current)
	require.False(t, list[0].Current)

	moved := w.rewind(two.TurnID)
	require.Equal(t, map[string]string{"a.txt": "1", "dir/b.txt": "2", "by-user.txt": "mine"}, w.files())
	require.Equal(t, []string{"first", "step", "step", "done"}, w.messages())
	require.Equal(t, words("second"), moved.Message)
	require.Len(t, moved.RemovedTurnIDs, 4)
	require.Equal(t, two.TurnID, moved.RemovedTurnIDs[0])
	require.NotEqual(t, moved.PreviousBranchID, moved.BranchID)
	require.Empty(t, moved.Files.Skipped)
	require.GreaterOrEqual(t, moved.Files.Restored, 2)
	require.NoError(t, w.j.Flush(t.Context()))
	require.Equal(t, 1, w.log.moves())

	// A new branch continues from there; its numbers are dense.
	three := w.chat("instead", w.writes("c.txt", "3"))
	require.Equal(t, []string{"first", "step", "step", "done", "instead", "step", "done"}, w.messages())
	list = w.checkpoints()
	require.Len(t, list, 4, "the one before the rewind, and the new turn's")
	kinds := []domain.CheckpointKind{list[0].Kind, list[1].Kind, list[2].Kind, list[3].Kind}
	require.Equal(t, []domain.CheckpointKind{"user_turn", "user_turn", "pre_rewind", "user_turn"}, kinds)
	require.Equal(t, []bool{false, true, true, false}, []bool{list[0].Reverted, list[1].Reverted, list[2].Reverted, list[3].Reverted})
	require.Equal(t, three.TurnID, list[3].TurnID)
	require.Equal(t, list[1].ID, *list[3].ParentID, "the place where it forked")
	require.Equal(t, 3, list[3].Step)
	require.True(t, list[3].Current)

	// Switching to the checkpoint brings the old branch back, and again the new.
	back, err := w.service.SwitchBranch(t.Context(), w.owner, w.session.ID, list[1].ID)
	require.NoError(t, err)
	require.Equal(t, moved.PreviousBranchID, back.BranchID)
	require.Equal(t, end, w.files())
	require.Equal(t, []string{"first", "step", "step", "done", "second", "step", "step", "done"}, w.messages())
	_, err = w.service.SwitchBranch(t.Context(), w.owner, w.session.ID, list[3].ID)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a.txt": "1", "dir/b.txt": "2", "by-user.txt": "mine", "c.txt": "3"}, w.files())
	require.Equal(t, "done", w.messages()[6])

	// The branch on which it stands: nothing happens, not to files either.
	w.write("c.txt", "edited")
	same, err := w.service.SwitchBranch(t.Context(), w.owner, w.session.ID, list[3].ID)
	require.NoError(t, err)
	require.Zero(t, same.Files.Restored)
	require.Equal(t, "edited", w.files()["c.txt"])
}

// A rewound message is given with its picture at an address that can be sent again, and
// what is sent then reaches the model.
func TestRewind_pictureIsSentAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := w.store.(*objects.Store)

	const picture = "data:image/png;base64," +
		"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

	object, err := store.Keep(t.Context(), w.session.ID, picture)
	require.NoError(t, err)

	parts := func(address string) []domain.ContentPart {
		return append(words("look"), domain.ContentPart{Type: "image_url", ImageURL: &domain.ImageURL{URL: address}})
	}
	one := w.sendParts(parts(object))
	w.run(one.ChatID)

	moved := w.rewind(one.TurnID)
	require.Equal(t, parts(domain.AttachmentPath(w.session.ID, object)), moved.Message)

	again, err := store.Keep(t.Context(), w.session.ID, moved.Message[1].ImageURL.URL)
	require.NoError(t, err)

	two := w.sendParts(parts(again))
	w.run(two.ChatID)

	transcript, err := w.j.Transcript(t.Context(), domain.TranscriptQuery{
		ChatID: two.ChatID, BranchID: moved.BranchID, LoopID: domain.RootLoop, Before: 1,
	})
	require.NoError(t, err)
	require.Equal(t, parts(object), transcript.Turns[0].Parts)

	sent, err := prompt.Pictures(t.Context(), store, transcript.Turns)
	require.NoError(t, err)
	require.Equal(t, map[string]string{strings.TrimPrefix(object, domain.ObjectScheme): picture}, sent)
}

func TestRewindTwiceToOnePlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.chat("first", w.writes("a.txt", "1"))
	first := w.rewind(one.TurnID)
	require.Empty(t, w.files())
	require.Empty(t, w.messages())
	require.Nil(t, first.HeadTurnID)
	w.write("late.txt", "x")
	second := w.rewind(one.TurnID)
	require.Empty(t, w.files())
	require.Empty(t, second.RemovedTurnIDs)
	require.NotEqual(t, first.BranchID, second.BranchID)
	require.Equal(t, words("first"), second.Message)
	w.chat("again", w.writes("b.txt", "2"))
	require.Equal(t, []string{"again", "step", "done"}, w.messages())
	back, err := w.service.Rewind(t.Context(), w.owner, w.session.ID, first.PreRewindID)
	require.NoError(t, err)
	require.Equal(t, []string{"first", "step", "done"}, w.messages(), "a rewind to where the session was left brings it back")
	require.Equal(t, map[string]string{"a.txt": "1"}, w.files())
	require.Nil(t, back.Message)
}

func TestRewindKeepsWhatAWorkspaceIsMadeOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.chat("build", func() {
		w.write("repo/.git/HEAD", "ref: refs/heads/main\n")
		w.write("repo/inner/.git/config", "[core]\n")
		w.write("repo/inner/x", "x")
		w.write("run.sh", "#!/bin/sh\n")
		require.NoError(t, os.Chmod(filepath.Join(w.root, "run.sh"), 0o750))
		require.NoError(t, os.MkdirAll(filepath.Join(w.root, "empty/deep"), 0o755))
		require.NoError(t, os.Symlink("run.sh", filepath.Join(w.root, "link")))
		require.NoError(t, os.Symlink("/nowhere", filepath.Join(w.root, "dangling")))
	})
	two := w.chat("destroy", func() {
		entries, err := os.ReadDir(w.root)
		require.NoError(t, err)

		for _, e := range entries {
			require.NoError(t, os.RemoveAll(filepath.Join(w.root, e.Name())))
		}

		w.write("link", "now a file")
		w.write("empty", "now a file too")
	})
	require.NotEqual(t, one.TurnID, two.TurnID)
	w.rewind(two.TurnID)
	target, err := os.Readlink(filepath.Join(w.root, "link"))
	require.NoError(t, err)
	require.Equal(t, "run.sh", target)
	target, err = os.Readlink(filepath.Join(w.root, "dangling"))
	require.NoError(t, err)
	require.Equal(t, "/nowhere", target)

	info, err := os.Stat(filepath.Join(w.root, "run.sh"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o750), info.Mode())
	require.DirExists(t, filepath.Join(w.root, "empty/deep"))

	for path, want := range map[string]string{
		"repo/.git/HEAD": "ref: refs/heads/main\n", "repo/inner/.git/config": "[core]\n", "repo/inner/x": "x",
	} {
		got, err := os.ReadFile(filepath.Join(w.root, path))
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}

func TestMovesNeedAnIdleSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.chat("first", w.writes("a.txt", "1"))
	point := w.before(one.TurnID).ID
	busy := func() {
		t.Helper()
		_, err := w.service.Rewind(t.Context(), w.owner, w.session.ID, point)
		require.True(t, domain.HasCode(err, domain.CodeSessionBusy), "%v", err)
		require.Equal(t, domain.Conflict, domain.AsError(err).Kind)
		_, err = w.service.SwitchBranch(t.Context(), w.owner, w.session.ID, point)
		require.True(t, domain.HasCode(err, domain.CodeSessionBusy), "%v", err)
		_, err = w.service.Whatif(t.Context(), w.owner, domain.Send{SessionID: w.session.ID, Message: words("x"), Whatif: &domain.Whatif{}})
		require.True(t, domain.HasCode(err, domain.CodeSessionBusy), "%v", err)
	}
	_, err := w.j.Pool.Exec(t.Context(), `
		INSERT INTO replays (session_id, source_session_id, speed, status, script, total)
		    VALUES ($1, 'source', 1, 'paused', 'script', 1)`, w.session.ID)
	require.NoError(t, err)
	busy() // replayed

	_, err = w.j.Pool.Exec(t.Context(), `UPDATE replays SET status = 'autonomous' WHERE session_id = $1`, w.session.ID)
	require.NoError(t, err)

	two := w.send("second")

	busy() // queued
	require.Equal(t, two.ChatID, w.begin())
	busy() // running
	w.step(two.ChatID, 1, "done", nil)
	w.finish(two.ChatID)

	_, err = w.service.Rewind(t.Context(), w.owner, w.session.ID, "none")
	require.True(t, domain.HasCode(err, "checkpoint_not_found"), "%v", err)
	_, err = w.service.Rewind(t.Context(), domain.User{ID: "another"}, w.session.ID, point)
	require.True(t, domain.HasCode(err, domain.CodeSessionNotFound), "%v", err)
	_, err = w.service.Checkout(t.Context(), w.session.ID, "none", history.CheckoutBefore)
	require.True(t, domain.HasCode(err, "checkpoint_not_found"), "%v", err)
}

func TestOfTwoMovesAtOnceOneWins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.chat("first", w.writes("a.txt", "1"))
	w.chat("second", w.writes("a.txt", "2"))
	point := w.before(one.TurnID).ID

	errs := make(chan error, 4)
	for range cap(errs) {
		go func() {
			_, err := w.service.Rewind(t.Context(), w.owner, w.session.ID, point)
			errs <- err
		}()
	}

	won := 0

	for range cap(errs) {
		if err := <-errs; err == nil {
			won++
		} else {
			require.True(t, domain.HasCode(err, domain.CodeSessionBusy), "%v", err)
		}
	}

	require.GreaterOrEqual(t, won, 1)
	require.Empty(t, w.messages())
	require.Empty(t, w.files())

	left := 0

	for _, k := range w.checkpoints() {
		if k.Kind == domain.CheckpointPreRewind {
			left++
		}
	}

	require.Equal(t, won, left, "one that was refused has left nothing")
}

func TestAMessageWaitsForAMoveUnderWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.chat("first", w.writes("a.txt", "1"))
	claimed, err := w.service.ClaimHistory(t.Context(), w.owner.ID, history.Request{
		Kind: domain.OperationRewind, SessionID: w.session.ID, CheckpointID: w.before(one.TurnID).ID,
	})
	require.NoError(t, err)

	claimedFor := func(age string) {
		_, err := w.j.Pool.Exec(t.Context(), `UPDATE history_operations SET created_at = now() - $2::text::interval WHERE id = $1`,
			claimed.Operation.ID, age)
		require.NoError(t, err)
	}
	claimedFor("-1 hour") // however slow this machine is, this counts as a claim of a moment ago

	ack := w.send("meanwhile")
	require.Equal(t, domain.DeliverRun, ack.DeliveryApplied)
	require.Empty(t, w.begin(), "no chat begins while the session is moved")
	_, err = w.j.Enqueue(t.Context(), w.owner.ID, domain.Send{SessionID: w.session.ID, Message: words("x"), Delivery: domain.DeliverReject})
	require.True(t, domain.HasCode(err, domain.CodeSessionBusy), "%v", err)

	// The process died before it had started the workflow: the reconciler starts it, as
	// soon as the start may be taken for lost.
	require.NoError(t, w.startLost())
	require.Zero(t, w.runs.started())
	claimedFor("1 minute")
	require.NoError(t, w.startLost())
	require.Eventually(t, func() bool { return w.log.moves() == 1 }, waitFor, tick)
	require.Equal(t, ack.ChatID, w.begin())
	w.step(ack.ChatID, 1, "done", nil)
	w.finish(ack.ChatID)
	require.Equal(t, []string{"meanwhile", "done"}, w.messages())
	require.Empty(t, w.files())
	require.Eventually(t, func() bool { return w.runs.count() == 1 }, waitFor, tick)
}
