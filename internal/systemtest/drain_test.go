package systemtest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"everloop/domain"
)

// A worker that is asked to stop lets a model call finish. It starts none of the tool calls
// that the answer asks for: another worker runs them.
func TestWorker_Stop_modelCallContinues(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.worker.Stop()

	s.acts.Model.DrainTime, s.stopTimeout = time.Minute, time.Minute

	var stopping atomic.Pointer[<-chan struct{}] // of the first worker

	s.marks = func(ctx context.Context) context.Context {
		stops := activity.GetWorkerStopChannel(ctx)
		stopping.CompareAndSwap(nil, &stops)

		return ctx
	}
	s.startWorker()

	session := s.session()
	ack := s.send(session, "go"+script(obj{"steps": []obj{
		{"text": "one two three", "hold": true, "hold_after": 1, "calls": []obj{bash("echo here")}},
		{"text": "done"},
	}}))
	s.await(session, domain.EventTurnPatch, func(d map[string]any) bool { return d["text_delta"] == "one " })

	old := s.worker
	stopped := make(chan struct{})

	go func() {
		defer close(stopped)

		old.Stop()
	}()

	<-*stopping.Load()
	s.release()
	<-stopped

	var failed, running int

	require.NoError(t, s.db.Pool.QueryRow(t.Context(), `
		SELECT (SELECT count(*) FROM entries WHERE session_id = $1 AND status = 'failed'),
		       (SELECT count(*) FROM tool_calls WHERE session_id = $1 AND phase = 'running')`, session).Scan(&failed, &running))
	require.Zero(t, failed, "no answer was broken off")
	require.Zero(t, running, "a worker that stops starts no call")

	s.startWorker()
	require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["status"])

	var result string

	require.NoError(t, s.db.Pool.QueryRow(t.Context(), `SELECT result FROM tool_calls WHERE session_id = $1`, session).Scan(&result))
	require.Contains(t, result, "here")
}
