package workflows_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"everloop/infra/tracing"
	"everloop/internal/durable"
	"everloop/internal/testkit"
	"everloop/workflows"
)

// TestHistories_replay holds that runs started with an earlier version continue
// with this one. `make replay` records them again; a history that no longer replays
// needs workflow.GetVersion, not a new recording.
func TestHistories_replay(t *testing.T) {
	t.Parallel()

	files, err := filepath.Glob("testdata/replay/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files, "no recorded histories")

	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			history := load(t, file)
			replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
				DisableDeadlockDetection: true, // a busy machine is no deadlock of a workflow
			})
			require.NoError(t, err)
			workflows.Register(replayer)
			require.NoError(t, replayer.ReplayWorkflowHistory(nil, history))
		})
	}
}

// TestRecordedHistoriesReplay_traced holds that traces change nothing of what a
// workflow decides, also in runs that were started without.
func TestRecordedHistoriesReplay_traced(t *testing.T) {
	t.Parallel()
	traces, err := tracing.Open(t.Context(), tracing.Config{Endpoint: testkit.Traces(t).URL, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(traces.Close)
	interceptors, err := traces.Interceptors()
	require.NoError(t, err)
	files, err := filepath.Glob("testdata/replay/*.json")
	require.NoError(t, err)

	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()

			replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
				DisableDeadlockDetection: true,
				Interceptors:             []interceptor.WorkerInterceptor{interceptors[0].(interceptor.WorkerInterceptor)},
			})
			require.NoError(t, err)
			workflows.Register(replayer)
			require.NoError(t, replayer.ReplayWorkflowHistory(nil, load(t, file)))
		})
	}
}

// names takes what is registered.
type names []string

func (n *names) RegisterWorkflowWithOptions(_ any, options workflow.RegisterOptions) {
	*n = append(*n, options.Name)
}

// TestHistories_oneForEachWorkflow holds that no workflow goes without one.
func TestHistories_oneForEachWorkflow(t *testing.T) {
	t.Parallel()

	files, err := filepath.Glob("testdata/replay/*.json")
	require.NoError(t, err)

	recorded := map[string]bool{}
	for _, file := range files {
		recorded[load(t, file).Events[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowType().GetName()] = true
	}

	var registered names
	workflows.Register(&registered)

	for _, name := range registered {
		require.True(t, recorded[name], "no recorded history of %s", name)
	}
}

// TestHistories_smallPayloads holds that content stays out of Temporal.
func TestHistories_smallPayloads(t *testing.T) {
	t.Parallel()

	files, err := filepath.Glob("testdata/replay/*.json")
	require.NoError(t, err)

	for _, file := range files {
		for _, event := range load(t, file).Events {
			require.LessOrEqual(t, proto.Size(event), durable.MaxPayload, "%s: event %d", file, event.EventId)
		}
	}
}

func load(t *testing.T, file string) *historypb.History {
	t.Helper()

	raw, err := os.ReadFile(file)
	require.NoError(t, err)

	history := &historypb.History{}
	require.NoError(t, protojson.Unmarshal(raw, history))

	return history
}
