package dagruns

import (
	"context"
	"fmt"
	"time"

	"everloop/activities/contract"
	"everloop/domain/dagrun"
)

const (
	// watchTimeout is how long the event log is asked for activity.
	watchTimeout = 2 * time.Second
	// watchEvery is the least time between two looks at a unit.
	watchEvery = 5 * time.Second
)

// WatchNode implements contract.WatchDAGNode: it fails an attempt that has shown no activity
// for longer than its node allows, and returns when the next activity of another one is due.
func (s *Service) WatchNode(ctx context.Context, in contract.DAGAttempt) (out contract.WatchDAGNodeOut, err error) {
	work, err := s.WatchedUnit(ctx, in)
	if err != nil || work.Unit.Status != dagrun.Running {
		return out, err
	}

	if out = watched(time.Now(), s.silence(ctx, work), dagrun.Heartbeat(work.Node)); out.Failure != nil {
		return out, nil
	}

	return out, s.SetDue(ctx, work.Unit.ID, in.Attempt, *out.Due)
}

// watched fails an attempt that was silent for its limit, or returns when to look again.
func watched(now time.Time, silent, limit time.Duration) (out contract.WatchDAGNodeOut) {
	if silent >= limit {
		out.Failure = &dagrun.NodeFailure{Code: dagrun.CodeHeartbeat, Message: fmt.Sprintf(
			"the attempt showed no activity for %s: heartbeat_s allows %s", silent.Round(time.Second), limit)}

		return out
	}

	due := now.Add(max(limit-silent, watchEvery))
	out.Due = &due

	return out
}

// silence is for how long a unit has shown no activity. A unit that waits for something
// outside of it is not silent, nor is a unit of which the event log knows nothing.
func (s *Service) silence(ctx context.Context, work dagrun.Work) time.Duration {
	if work.Idle {
		return 0
	}

	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()

	last, err := s.cfg.Events.LastAt(ctx, work.Unit.SessionID)
	if err != nil {
		s.cfg.Logger.WarnContext(ctx, "failed to look for activity of a DAG node", "session_id", work.Unit.SessionID, "error", err)
	}

	if last.IsZero() {
		return 0
	}

	return time.Since(last)
}
