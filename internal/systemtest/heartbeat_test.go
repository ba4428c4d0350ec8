package systemtest

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"everloop/domain"
	"everloop/internal/durable"
	"everloop/internal/testkit"
)

// heartbeats is a gRPC interceptor that can keep heartbeats from arriving, as a
// stalled Temporal server does.
type heartbeats struct {
	stalled atomic.Bool
	lost    atomic.Int32 // heartbeats of attempts that the server had given up
}

func (h *heartbeats) intercept(
	ctx context.Context,
	method string,
	req, reply any,
	conn *grpc.ClientConn,
	call grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	_, heartbeat := req.(*workflowservice.RecordActivityTaskHeartbeatRequest)
	if heartbeat && h.stalled.Load() {
		<-ctx.Done()
		return ctx.Err()
	}

	err := call(ctx, method, req, reply, conn, opts...)
	if heartbeat && status.Code(err) == codes.NotFound {
		h.lost.Add(1)
	}

	return err
}

// throughHeartbeats restarts the worker behind the interceptor.
func (s *stack) throughHeartbeats() *heartbeats {
	s.t.Helper()

	h := &heartbeats{}
	options := testkit.Temporal(s.t)
	options.ConnectionOptions.GrpcCompression, options.ConnectionOptions.GetSystemInfoTimeout = &client.GrpcCompressionNone{}, time.Minute
	options.ConnectionOptions.DialOptions = []grpc.DialOption{grpc.WithChainUnaryInterceptor(h.intercept)}
	through, err := client.DialContext(s.t.Context(), options)
	require.NoError(s.t, err)
	s.worker.Stop()
	s.client = through
	s.startWorker()
	s.t.Cleanup(func() { s.worker.Stop(); through.Close() })

	return h
}

// awaitAttempt waits until an activity of the run is at its nth attempt.
func (s *stack) awaitAttempt(workflowID string, n int32) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		run, err := s.client.DescribeWorkflowExecution(s.t.Context(), workflowID, "")
		if err != nil {
			return false
		}

		for _, pending := range run.GetPendingActivities() {
			if pending.GetAttempt() >= n && pending.GetLastStartedTime() != nil {
				return true
			}
		}

		return false
	}, patience, 50*time.Millisecond, "%s: attempt %d", workflowID, n)
}

// write makes an empty file in the workspaces of all sessions that have one.
func (s *stack) write(name string) {
	s.t.Helper()

	for _, root := range s.inWorkspaces("") {
		require.NoError(s.t, os.WriteFile(filepath.Join(root, name), nil, 0o600))
	}
}

// modelCalls counts the requests to the model whose body has the text.
func (s *stack) modelCalls(text string) int {
	s.t.Helper()

	var list struct {
		Items []struct{ Body json.RawMessage } `json:"items"`
	}
	require.NoError(s.t, json.Unmarshal([]byte(s.control("GET", "/control/requests")), &list))

	n := 0

	for _, item := range list.Items {
		if strings.Contains(string(item.Body), text) {
			n++
		}
	}

	return n
}

// A server that gets no heartbeats gives every attempt up. The work continues, and
// the next attempt joins it.
func TestWorkGoesOnWhileHeartbeatsAreLost(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	h := s.throughHeartbeats()
	waits := "until [ -e go ]; do sleep 0.05; done; echo x >> $0.runs; cat $0.runs"
	in := func(name string) string { return "set -- ; bash -c '" + waits + "' ./" + name }

	tooling, streaming, tasking := s.session(), s.session(), s.session()
	tool := s.send(tooling, script(obj{"note": "tooling", "steps": []obj{{"calls": []obj{bash(in("tool"))}}, {"text": "done"}}}))
	task := s.send(tasking, script(obj{"steps": []obj{{"calls": []obj{bashInBackground(in("task"))}}, {"text": "started"}}}))
	require.Equal(t, "completed", s.awaitEnd(tasking, task.ChatID)["status"])
	s.awaitProcess(tasking)
	stream := s.send(
		streaming,
		script(obj{"note": "streaming", "steps": []obj{{"text": "one two three four", "hold": true, "hold_after": 2}}}),
	)
	s.awaitText(streaming)
	h.stalled.Store(true)

	tasks, err := s.tasks.List(t.Context(), tasking)
	require.NoError(t, err)

	runs := []string{
		durable.SessionWorkflowID(string(tooling)),
		durable.SessionWorkflowID(string(streaming)),
		durable.TaskWorkflowID(tasks[0].TaskID),
	}
	for _, run := range runs {
		s.awaitAttempt(run, 2)
	}

	h.stalled.Store(false)
	require.Eventually(t, func() bool { return int(h.lost.Load()) >= len(runs) }, patience, 20*time.Millisecond,
		"the first attempts hear that they are given up")
	s.write("go")
	s.release()

	require.Equal(t, "completed", s.awaitEnd(tooling, tool.ChatID)["status"])
	call := s.messages(tooling)[1].ToolCalls[0]
	require.Equal(t, domain.CallDone, call.Status)
	require.Equal(t, "x", strings.TrimSpace(call.Result), "it ran once")

	require.Equal(t, "completed", s.awaitEnd(streaming, stream.ChatID)["status"])
	turns := s.messages(streaming)
	require.Len(t, turns, 2, "no turn failed")
	require.Equal(t, "one two three four", turns[1].Blocks[0].Content)
	require.Equal(t, 1, s.modelCalls(`"note\":\"streaming\"`), "the model was called once")

	ended := s.tasksEnded(tasking)
	require.Equal(t, domain.TaskCompleted, ended[0].Status, ended[0].Reason)
	s.checkEvents(tooling)
	s.checkEvents(streaming)
}
