package systemtest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	domainreplay "everloop/domain/replay"
	"everloop/infra/objects"
	"everloop/infra/temporal"
	"everloop/internal/durable"
	"everloop/internal/testkit"
	"everloop/service/recordings"
	"everloop/service/recordings/replay"
)

// noSnapshots are files that there is nothing of.
type noSnapshots struct{ recordings.Files }

func (noSnapshots) CopyFiles(context.Context, domain.Session, domain.Session, string) error {
	return nil
}

// TestAReplayIsPlayed plays a session on real engines, stops it, resumes it and
// passes it to the user.
func TestAReplayIsPlayed(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	bucket := testkit.Objects(t)
	store, err := objects.Open(
		t.Context(),
		objects.Config{Endpoint: bucket.Endpoint, Bucket: bucket.Name, AccessKey: bucket.AccessKey, SecretKey: bucket.SecretKey},
	)
	require.NoError(t, err)

	runs := temporal.Runs{Client: s.client, Queue: s.queue}
	deps := s.recorded(s.log, store, noSnapshots{}, runs)
	archive, err := recordings.New(deps)
	require.NoError(t, err)
	replays, err := replay.New(deps, archive)
	require.NoError(t, err)
	replays.Register(s.worker)
	source := s.session()
	ack := s.send(source, script(obj{"loop": obj{"n": 5, "call": bash("echo a; sleep 2; echo b{{i}}")}, "closing": "done"}))
	require.Equal(t, "completed", s.awaitEnd(source, ack.ChatID)["status"])

	session := func(id domain.SessionID) domain.Session {
		found, err := s.journal.OwnSession(t.Context(), s.caller.User, id)
		require.NoError(t, err)

		return found
	}
	status := func(id domain.SessionID, want domain.ReplayStatus) {
		require.Eventually(t, func() bool {
			return *session(id).Replay.Status == want
		}, patience, 100*time.Millisecond)
	}

	id, err := replays.Start(t.Context(), s.caller.User, session(source), 1)
	require.NoError(t, err)
	s.await(id, domain.EventTurnPatch, func(d map[string]any) bool { return d["patch_type"] == "add_tool_call" })
	s.stop(id)
	status(id, domain.ReplayPaused)

	fast := 5
	require.NoError(t, replays.Change(t.Context(), s.caller.User, session(id), domainreplay.Change{Resume: true, Speed: &fast}))
	status(id, domain.ReplayFinished)
	s.checkEvents(id)
	was, is := s.messages(source), s.messages(id)
	require.Equal(t, was[len(was)-1].Blocks, is[len(is)-1].Blocks)
	require.Contains(t, is[len(is)-2].ToolCalls[0].Result, "b")
	s.replayRun("replay_played", durable.ReplayWorkflowID(string(id)))

	other, err := replays.Start(t.Context(), s.caller.User, session(source), 1)
	require.NoError(t, err)
	s.await(other, domain.EventTurnPatch, func(d map[string]any) bool { return d["patch_type"] == "add_tool_call" })
	require.NoError(t, replays.Change(t.Context(), s.caller.User, session(other), domainreplay.Change{HandOver: true}))
	require.Equal(t, domain.ReplayAutonomous, *session(other).Replay.Status)
	s.replayRun("replay_handed_over", durable.ReplayWorkflowID(string(other)))
	s.checkEvents(other)
	require.Equal(t, "completed", s.talk(other, "mine"+script(obj{"steps": []obj{{"text": "mine"}}}))["status"])

	// A script that is gone pauses its replay; its owner can take it from there.
	lost, err := replays.Start(t.Context(), s.caller.User, session(source), 1)
	require.NoError(t, err)
	s.await(lost, domain.EventTurnPatch, func(d map[string]any) bool { return d["patch_type"] == "add_tool_call" })
	s.worker.Stop() // as if its process had died
	require.NoError(t, store.DeletePrefix(t.Context(), replay.Prefix(lost)))
	s.startWorker()
	replays.Register(s.worker)
	status(lost, domain.ReplayPaused)
	require.NoError(t, replays.Change(t.Context(), s.caller.User, session(lost), domainreplay.Change{HandOver: true}))
	s.checkEvents(lost)
}
