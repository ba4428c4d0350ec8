package systemtest

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/infra/temporal"
	"everloop/internal/durable"
)

// played returns an activity that plays replays. It reports the status of each of its attempts in
// order, and calls resume when the first one ends.
func (s *stack) played(resume func(), attempts ...contract.PlayReplayOut) *atomic.Int32 {
	s.t.Helper()

	var looks atomic.Int32

	contract.PlayReplay.Handle(s.worker, func(context.Context, contract.PlayReplayIn) (contract.PlayReplayOut, error) {
		n := looks.Add(1)
		if n == 1 {
			resume()
		}

		return attempts[n-1], nil
	})

	return &looks
}

var (
	resumed  = contract.PlayReplayOut{Position: 1, Total: 3, Status: string(domain.ReplayPlaying), Again: true}
	paused   = contract.PlayReplayOut{Position: 1, Total: 3, Status: string(domain.ReplayPaused)}
	finished = contract.PlayReplayOut{Position: 2, Total: 3, Status: string(domain.ReplayFinished)}
)

// A replay is paused when its run first looks at it, and resumed in the same moment, so that
// the run has to look again.
func TestReplay_looksUntilTheEnd(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	looks := s.played(func() {}, resumed, finished)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	id := durable.ReplayWorkflowID(domain.NewID())
	run, err := s.client.ExecuteWorkflow(
		ctx,
		client.StartWorkflowOptions{ID: id, TaskQueue: s.queue},
		contract.WorkflowReplay,
		contract.ReplayInput{SessionID: "s"},
	)
	require.NoError(t, err)
	require.NoError(t, run.Get(ctx, nil))
	require.EqualValues(t, 2, looks.Load())
	s.replayRun("replay", id)
}

// A replay is resumed while the look that saw its pause ends.
func TestReplay_wokenAsItCloses(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := domain.NewID()
	runs := temporal.Runs{Client: s.client, Queue: s.queue}
	start := func() {
		if err := runs.StartReplay(t.Context(), domain.SessionID(session), s.caller.User.ID); err != nil {
			t.Error(err)
		}
	}
	looks := s.played(start, paused, finished)

	start()

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	id := durable.ReplayWorkflowID(session)
	require.NoError(t, s.client.GetWorkflow(ctx, id, "").Get(ctx, nil))
	require.EqualValues(t, 2, looks.Load(), "one run has looked again")
	s.replayRun("replay_woken", id)
}
