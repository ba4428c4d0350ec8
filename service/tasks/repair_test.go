package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/activities/tools"
	"everloop/domain"
	"everloop/service/tasks"
)

// crowd is more tasks than are read at once, of which the first ones cannot be repaired.
type crowd struct {
	tasks.Store
	tasks.Runs
	tasks.Bus
	tools.Workspaces
	ids     []string
	refused map[string]bool
	done    map[string][]string // by what was done
}

func (c *crowd) page(after string, limit int) (found []string) {
	for _, id := range c.ids {
		if id > after && len(found) < limit {
			found = append(found, id)
		}
	}

	return found
}

func (c *crowd) note(what, id string) error {
	c.done[what] = append(c.done[what], id)
	if c.refused[id] {
		return errors.New("refused")
	}

	return nil
}

func (c *crowd) UnclaimedTasks(_ context.Context, _ time.Duration, after string, limit int) (found []contract.TaskInput, err error) {
	for _, id := range c.page(after, limit) {
		found = append(found, contract.TaskInput{TaskID: id})
	}

	return found, nil
}

func (c *crowd) AbandonedTasks(_ context.Context, _ time.Duration, after string, limit int) ([]string, error) {
	return c.page(after, limit), nil
}

func (c *crowd) RunningAgents(_ context.Context, _ time.Duration, after string, limit int) (found []contract.RunningAgent, err error) {
	for _, id := range c.page(after, limit) {
		agent := contract.RunningAgent{Begun: true}
		agent.Run.TaskID, agent.Run.LoopID = id, id
		found = append(found, agent)
	}

	return found, nil
}

func (c *crowd) StartTask(_ context.Context, in contract.TaskInput) error {
	return c.note("started", in.TaskID)
}

func (c *crowd) MarkTaskLost(_ context.Context, id, _ string) (domain.TaskStatus, error) {
	return domain.TaskLost, c.note("lost", id)
}

func (c *crowd) DescribeTask(context.Context, string) (domain.RunState, string, error) {
	return domain.RunClosed, "terminated", nil
}

func (c *crowd) LoseAgent(_ context.Context, id, _ string) error { return c.note("ended", id) }

// Tasks that cannot be repaired, or need no repair, keep no other from it.
func TestService_Repair_reachesAllTasks(t *testing.T) {
	t.Parallel()

	c := &crowd{refused: map[string]bool{}, done: map[string][]string{}}

	for n := range 1100 {
		id := fmt.Sprintf("t%04d", n)
		c.ids = append(c.ids, id)
		c.refused[id] = n < 600
	}

	synctest.Test(t, func(t *testing.T) { // the clock stands while Repair works
		service, err := tasks.New(tasks.Config{Store: c, Runs: c, Bus: c, Workspaces: c, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		require.ErrorContains(t, service.Repair(t.Context()), "refused")

		for _, what := range []string{"started", "lost", "ended"} {
			require.Equal(t, c.ids, c.done[what], what)
		}

		require.ErrorContains(t, service.Repair(t.Context()), "refused")
		require.Len(t, c.done["lost"], 2200)
		require.Len(t, c.done["started"], 1100, "a start is repeated after a pause")
	})
}
