package chat

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// askedOnce is a store with one open question, whose session cannot always be read.
type askedOnce struct {
	Store
	resolved bool
	away     error // what reading the session returns
}

func (a *askedOnce) Question(context.Context, string, domain.SessionID, string) (domain.Question, bool, error) {
	asked := json.RawMessage(`[{"question": "Which?", "options": [{"label": "a"}, {"label": "b"}]}]`)

	return domain.Question{ID: "q", ChatID: "c", Questions: asked}, !a.resolved, nil
}

func (a *askedOnce) ResolveQuestion(context.Context, string, domain.Question, string, string) (bool, error) {
	first := !a.resolved
	a.resolved = true

	return first, nil
}

func (a *askedOnce) SessionRun(context.Context, string, domain.SessionID) (domain.SessionRun, error) {
	return domain.SessionRun{}, a.away
}

// wakes collects the runs that are woken, and wakes none.
type wakes struct {
	Runs
	woken chan domain.SessionRun
}

func (w wakes) Wake(_ context.Context, run domain.SessionRun) error {
	w.woken <- run
	return errors.New("Temporal is away")
}

// An answer that was rejected did not count: its repeat resolves the question.
func TestService_Answer_sessionCannotBeRead(t *testing.T) {
	t.Parallel()

	store := &askedOnce{away: domain.Unavailablef("PostgreSQL", errors.New("away"))}
	runs := wakes{woken: make(chan domain.SessionRun, 1)}
	s := &Service{Config{Store: store, Runs: runs, Logger: slog.New(slog.DiscardHandler)}}
	answer := domain.Answer{ToolCallID: "t", Custom: map[string]string{"0": "a"}}

	_, err := s.Answer(t.Context(), domain.Caller{}, "s", answer)
	require.Equal(t, domain.Unavailable, domain.AsError(err).Kind, "%v", err)
	require.False(t, store.resolved)

	store.away = nil
	ack, err := s.Answer(t.Context(), domain.Caller{}, "s", answer)
	require.NoError(t, err, "the reconciler repeats a wake that fails")
	require.True(t, ack.Resolved)
	require.True(t, (<-runs.woken).Open)
}
