package systemtest

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"everloop/activities/background"
	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/replay"
	"everloop/infra/temporal"
	"everloop/internal/durable"
	"everloop/worker"
)

// record is a replay that is paused when it is first looked at and resumed in the
// same moment, so that its run has to look again.
type record struct {
	background.ReplayRecords // nothing is played
	looks                    atomic.Int32
}

func (r *record) ClaimReplay(_ context.Context, session domain.SessionID) (replay.Claim, error) {
	return replay.Claim{SessionID: session, Status: domain.ReplayPaused, Total: 3}, nil
}

func (r *record) Replay(_ context.Context, session domain.SessionID) (replay.Claim, error) {
	status := domain.ReplayPlaying
	if r.looks.Add(1) == 2 {
		status = domain.ReplayFinished
	}

	return replay.Claim{SessionID: session, Status: status, Position: int(r.looks.Load()), Total: 3}, nil
}

func (r *record) Script(context.Context, string) ([]replay.Step, error) { return nil, nil }
func (r *record) Settle(context.Context, domain.SessionID) error        { return nil }

func TestTheRunOfAReplayLooksUntilItIsOver(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	played := &record{}
	worker.RegisterReplays(s.worker, &background.Replays{Store: played, Scripts: played, Logger: s.logger})

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
	require.EqualValues(t, 2, played.looks.Load())
	s.replayRun("replay", id)
}

// pausing is a replay that is resumed while the look that saw its pause ends.
type pausing struct {
	record
	resume func()
}

func (p *pausing) Replay(_ context.Context, session domain.SessionID) (replay.Claim, error) {
	if p.looks.Add(1) == 1 {
		p.resume()
		return replay.Claim{SessionID: session, Status: domain.ReplayPaused, Total: 3}, nil
	}

	return replay.Claim{SessionID: session, Status: domain.ReplayFinished, Total: 3}, nil
}

func TestTheRunOfAReplayIsWokenAsItCloses(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := domain.NewID()
	runs := temporal.Runs{Client: s.client, Queue: s.queue}
	start := func() {
		if err := runs.StartReplay(t.Context(), domain.SessionID(session), s.caller.User.ID); err != nil {
			t.Error(err)
		}
	}
	played := &pausing{resume: start}
	worker.RegisterReplays(s.worker, &background.Replays{Store: played, Scripts: played, Logger: s.logger})

	start()

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	id := durable.ReplayWorkflowID(session)
	require.NoError(t, s.client.GetWorkflow(ctx, id, "").Get(ctx, nil))
	require.EqualValues(t, 2, played.looks.Load(), "one run has looked again")
	s.replayRun("replay_woken", id)
}
