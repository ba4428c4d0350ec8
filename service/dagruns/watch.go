package dagruns

import (
	"context"
	"fmt"
	"time"

	"everloop/domain/dagrun"
)

const (
	// watchTimeout is how long the event log is asked for activity, in all.
	watchTimeout = 2 * time.Second
	// watchEvery is the least time between two looks at a unit.
	watchEvery = 5 * time.Second
)

// watch fails the units that have shown no activity for longer than they may, and says
// when the next one of the others is due. Then the run is advanced again.
func (s *Service) watch(ctx context.Context, runID string, units []dagrun.Watch) (dagrun.Step, error) {
	asked, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()

	for _, u := range units {
		if err := s.watchUnit(ctx, u, s.silence(asked, u)); err != nil {
			return dagrun.Step{}, err
		}
	}

	return s.cfg.Store.AdvanceDAGRun(ctx, runID)
}

func (s *Service) watchUnit(ctx context.Context, u dagrun.Watch, silent time.Duration) error {
	if silent < u.Limit {
		return s.cfg.Store.WatchDAGUnit(ctx, u.ID, u.Attempt, time.Now().Add(max(u.Limit-silent, watchEvery)))
	}

	return s.cfg.Store.FailDAGUnit(ctx, u.ID, u.Attempt, dagrun.CodeHeartbeat, fmt.Sprintf(
		"the attempt showed no activity for %s: heartbeat_s allows %s", silent.Round(time.Second), u.Limit))
}

// silence is for how long a unit has shown no activity. A unit that waits for something
// outside of it is not silent, nor is one of which the event log knows nothing.
func (s *Service) silence(ctx context.Context, u dagrun.Watch) time.Duration {
	if u.Waits {
		return 0
	}

	last, err := s.cfg.Events.LastAt(ctx, u.SessionID)
	if err != nil {
		s.cfg.Logger.WarnContext(ctx, "failed to look for activity of a DAG node", "session_id", u.SessionID, "error", err)
	}

	if last.IsZero() {
		return 0
	}

	return time.Since(last)
}
