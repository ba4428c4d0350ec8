package terminal

import (
	"context"
	"net/http"
	"slices"
	"time"
)

// compactTime is a little more than the service waits for a summary.
const compactTime = 11 * time.Minute

// Models are what new sessions can use.
type Models struct {
	Default string `json:"default"`
	Models  []struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"models"`
}

// Checkpoint is a state of the session that it can go back to.
type Checkpoint struct {
	ID       string `json:"checkpoint_id"`
	Sequence int    `json:"sequence"`
	Kind     string `json:"kind"`
	Label    string `json:"label"` // the beginning of the message
	Reverted bool   `json:"reverted"`
}

// SessionTask is an entry of the agent's task list.
type SessionTask struct {
	Subject string `json:"subject"`
	Status  string `json:"status"`
}

// SessionUsage is what the model calls of a session have used.
type SessionUsage struct {
	Calls     int64   `json:"calls"`
	Input     int64   `json:"input_tokens"`
	Output    int64   `json:"output_tokens"`
	CacheRead int64   `json:"cache_read_tokens"`
	Cost      float64 `json:"cost_usd"`
	Uncosted  usage   `json:"uncosted"`
}

// Models lists the models of the service.
func (c *Client) Models(ctx context.Context) (models Models, err error) {
	err = c.call(ctx, http.MethodGet, "/api/config/models", nil, &models)
	return models, err
}

// Sessions are the user's sessions, those that changed last first; replays do not count.
func (c *Client) Sessions(ctx context.Context) ([]Session, error) {
	var page struct {
		Items []Session `json:"items"`
	}
	if err := c.call(ctx, http.MethodGet, "/api/sessions?limit=100", nil, &page); err != nil {
		return nil, err
	}

	sessions := slices.DeleteFunc(page.Items, func(s Session) bool {
		return len(s.ReplayState) > 0 && string(s.ReplayState) != "null"
	})
	slices.SortStableFunc(sessions, func(a, b Session) int { return b.UpdatedAt.Compare(a.UpdatedAt) })

	return sessions, nil
}

// Checkpoints lists the states of a session.
func (c *Client) Checkpoints(ctx context.Context, session string) (list []Checkpoint, err error) {
	err = c.call(ctx, http.MethodGet, sessionPath(session, "/checkpoints"), nil, &list)
	return list, err
}

// Rewind takes the conversation and the files back to before a checkpoint.
func (c *Client) Rewind(ctx context.Context, session, checkpoint string) error {
	var result struct{}

	return c.callWithin(
		ctx,
		compactTime,
		http.MethodPost,
		sessionPath(session, "/rewind"),
		map[string]string{"checkpoint_id": checkpoint},
		&result,
	)
}

// Compact summarises the older part of the history.
func (c *Client) Compact(ctx context.Context, session string) error {
	var result struct{}
	return c.callWithin(ctx, compactTime, http.MethodPost, sessionPath(session, "/compact"), nil, &result)
}

// Tasks lists the task list of a session.
func (c *Client) Tasks(ctx context.Context, session string) ([]SessionTask, error) {
	var page struct {
		Items []SessionTask `json:"items"`
	}

	err := c.call(ctx, http.MethodGet, sessionPath(session, "/tasks"), nil, &page)

	return page.Items, err
}

// Usage reports what a session has used.
func (c *Client) Usage(ctx context.Context, session string) (u SessionUsage, err error) {
	err = c.call(ctx, http.MethodGet, sessionPath(session, "/usage"), nil, &u)
	return u, err
}
