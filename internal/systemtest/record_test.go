package systemtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	sdkworker "go.temporal.io/sdk/worker"
	"google.golang.org/protobuf/encoding/protojson"

	"everloop/activities/tools"
	"everloop/activities/tools/agents"
	"everloop/domain"
	"everloop/internal/durable"
	"everloop/workflows"
)

// replay holds that every run of a session that has come to its end could be
// gone over again from its history, and keeps the histories for the replay tests
// of package workflows when it is asked to (make replay).
func (s *stack) replay(session domain.SessionID, name string) {
	s.t.Helper()

	for i, history := range s.histories(durable.SessionWorkflowID(string(session))) {
		suffix := ""
		if i > 0 {
			suffix = "_next"
		}

		replayable(s.t, name+suffix, history)
	}

	for _, turn := range s.messages(session) {
		if turn.Kind == domain.KindCompaction && *turn.Trigger == string(domain.CompactManual) {
			s.replayRun(name+"_run", durable.CompactionWorkflowID(*turn.CompactionID))
		}

		for _, call := range turn.ToolCalls {
			if id, suffix := runOf(s.t, turn, call); id != "" {
				s.replayRun(name+suffix, id)
			}
		}
	}
}

// runOf returns the run that carried out a call, if it had one of its own.
func runOf(t *testing.T, turn domain.Turn, call domain.ToolCall) (id, suffix string) {
	t.Helper()

	var about struct {
		agents.AgentArguments
		Command string `json:"command"`
	}
	require.NoError(t, json.Unmarshal([]byte(call.Arguments), &about))

	switch {
	case call.ToolName == agents.Agent && about.Background:
		return durable.TaskWorkflowID(tools.BackgroundTaskID(call.ID)), "_task_" + about.Description
	case call.ToolName == agents.Agent:
		return durable.ForkWorkflowID(string(turn.ChatID), call.ID), "_fork_" + about.Description
	case about.Background:
		return durable.TaskWorkflowID(tools.BackgroundTaskID(call.ID)), "_task_shell"
	default:
		return "", ""
	}
}

func (s *stack) replayRun(name, id string) {
	s.t.Helper()

	for i, history := range s.histories(id) {
		suffix := ""
		if i > 0 {
			suffix = fmt.Sprintf("_%d", i+1)
		}

		replayable(s.t, name+suffix, history)
	}
}

// replayable goes over a run again. A history that cannot be is left for a look.
func replayable(t *testing.T, name string, history *historypb.History) {
	t.Helper()

	raw, err := protojson.MarshalOptions{Multiline: true}.Marshal(history)
	require.NoError(t, err)

	replayer, err := sdkworker.NewWorkflowReplayerWithOptions(sdkworker.WorkflowReplayerOptions{
		DisableDeadlockDetection: true, // a busy machine is no deadlock of a workflow
	})
	require.NoError(t, err)
	workflows.Register(replayer)

	if err := replayer.ReplayWorkflowHistory(nil, history); err != nil {
		kept := filepath.Join(os.TempDir(), "does-not-replay-"+name+".json")
		require.NoError(t, os.WriteFile(kept, raw, 0o600))
		require.NoError(t, err, "%s cannot be replayed; its history is in %s", name, kept)
	}

	if os.Getenv("EVERLOOP_RECORD") == "" {
		return
	}

	dir := filepath.Join("..", "..", "workflows", "testdata", "replay")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name+".json"), raw, 0o644))
}

// awaitStart waits until a workflow has had a run: some are started in the background.
func (s *stack) awaitStart(id string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		_, err := s.client.DescribeWorkflowExecution(s.t.Context(), id, "")
		return err == nil
	}, patience, 20*time.Millisecond, "%s was never started", id)
}

// histories gives the histories of a workflow's runs once the last has closed, in
// the order of their starts.
func (s *stack) histories(id string) []*historypb.History {
	s.t.Helper()

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()

	s.awaitStart(id)
	// How it ended is in the store; here it only must have.
	_ = s.client.GetWorkflow(ctx, id, "").Get(ctx, nil)
	require.NoError(s.t, ctx.Err(), "%s is still open", id)
	last, err := s.client.DescribeWorkflowExecution(ctx, id, "")
	require.NoError(s.t, err, id)

	var all []*historypb.History

	for run := last.GetWorkflowExecutionInfo().GetExecution().GetRunId(); run != ""; {
		history := &historypb.History{}

		events := s.client.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event, err := events.Next()
			require.NoError(s.t, err)

			history.Events = append(history.Events, event)
		}

		all = append([]*historypb.History{history}, all...)
		run = history.Events[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId()
	}

	return all
}
