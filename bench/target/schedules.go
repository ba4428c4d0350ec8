package target

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// CreateTask makes a scheduled task in UTC and gives its id.
func (c *Client) CreateTask(ctx context.Context, cron string) (string, error) {
	var made struct {
		ID string `json:"id"`
	}

	err := c.Call(ctx, http.MethodPost, "/api/scheduled-tasks", Object{
		"title": "Bench", "prompt": HelloScript, "cron": cron, "timezone": "UTC",
	}, &made)

	return made.ID, err
}

// MoveTask gives a scheduled task another time.
func (c *Client) MoveTask(ctx context.Context, id, cron string, jitterS int) error {
	return c.Call(ctx, http.MethodPatch, "/api/scheduled-tasks/"+id, Object{"cron": cron, "jitter_s": jitterS}, nil)
}

// ScheduledRun is the record of a run that is over.
type ScheduledRun struct {
	Session string    `json:"session_id"`
	Status  string    `json:"status"`
	Outcome string    `json:"outcome"`
	For     time.Time `json:"scheduled_for"`
	DriftMS float64   `json:"drift_ms"`
}

// Ended waits until the run of a scheduled task for a time is over.
func (c *Client) Ended(ctx context.Context, task string, due time.Time, patience time.Duration) (ScheduledRun, error) {
	for {
		var runs []ScheduledRun
		if err := c.Call(ctx, http.MethodGet, "/api/scheduled-tasks/"+task+"/runs?limit=1", nil, &runs); err != nil {
			return ScheduledRun{}, err
		}

		if len(runs) > 0 && runs[0].For.Equal(due) && runs[0].Status != "running" {
			run := runs[0]
			if run.Status != "completed" {
				return run, fmt.Errorf("the run of task %s is %s (%s)", task, run.Status, run.Outcome)
			}

			return run, nil
		}

		if time.Since(due) > patience {
			return ScheduledRun{}, errors.New("a scheduled run did not end")
		}

		select {
		case <-ctx.Done():
			return ScheduledRun{}, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// ChatBegan gives the time at which the last chat of a session began: that of its user turn.
func (c *Client) ChatBegan(ctx context.Context, session string) (began time.Time, err error) {
	var turns []struct {
		Role      string    `json:"role"`
		StartedAt time.Time `json:"started_at"`
	}
	if err := c.Call(ctx, http.MethodGet, "/api/sessions/"+session+"/messages", nil, &turns); err != nil {
		return began, err
	}

	for _, turn := range turns {
		if turn.Role == "user" {
			began = turn.StartedAt
		}
	}

	return began, nil
}

// Metric reads one sample of the service's metrics, by its name with its labels.
func (c *Client) Metric(ctx context.Context, name string) (float64, error) {
	response, err := c.Request(ctx, http.MethodGet, "/metrics", "text/plain", nil)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()

	lines := bufio.NewScanner(io.LimitReader(response.Body, 16<<20))
	lines.Buffer(nil, 1<<20)

	for lines.Scan() {
		if value, found := strings.CutPrefix(lines.Text(), name+" "); found {
			return strconv.ParseFloat(value, 64)
		}
	}

	return 0, errors.Join(lines.Err(), fmt.Errorf("there is no metric %s", name))
}
