package workflows_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"everloop/activities/contract"
	"everloop/internal/durable"
	"everloop/workflows"
)

// TestRecordedHistoriesReplay holds that runs begun with an earlier version go on
// with this one. `make replay` records anew; a history that no longer replays
// needs workflow.GetVersion, not a new recording.
func TestRecordedHistoriesReplay(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/replay/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files, "no recorded histories")
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			history := load(t, file)
			replayer := worker.NewWorkflowReplayer()
			replayer.RegisterWorkflowWithOptions(workflows.Chat, workflow.RegisterOptions{Name: contract.WorkflowChat})
			replayer.RegisterWorkflowWithOptions(workflows.Fork, workflow.RegisterOptions{Name: contract.WorkflowFork})
			require.NoError(t, replayer.ReplayWorkflowHistory(nil, history))
		})
	}
}

// TestRecordedPayloadsAreSmall holds that content stays out of Temporal.
func TestRecordedPayloadsAreSmall(t *testing.T) {
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
