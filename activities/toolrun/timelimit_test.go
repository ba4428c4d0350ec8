package toolrun

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/activities/tools/builtin"
	"everloop/domain"
	"everloop/internal/durable"
)

// slowTool takes the place of Bash; its calls take as long as they may.
type slowTool struct{ limit time.Duration }

func (s slowTool) Tools(context.Context, tools.Scope) []tools.Tool {
	return []tools.Tool{{
		Name: "Bash", Spec: domain.ToolSpec{Name: "Bash", Parameters: json.RawMessage(`{"type":"object"}`)}, Acts: true, Executing: true,
		TimeLimit: s.limit,
		Run: func(ctx context.Context, _ *tools.Call) (tools.Result, error) {
			<-ctx.Done()
			return tools.Result{Output: "half of it"}, ctx.Err()
		},
	}}
}

// A call ends by the limit of its tool, which may be longer than a quarter of an
// hour, and the model reads why.
func TestRunner_Start_timeLimit(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct{ limit, want time.Duration }{
		"default": {0, 15 * time.Minute}, "short": {time.Minute, time.Minute}, "an hour": {time.Hour, time.Hour},
		"bounded": {24 * time.Hour, tools.MaxTimeLimit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				registry, err := builtin.New(tools.Deps{Sandbox: sleepingShell{}, Workspaces: noFiles{}})
				require.NoError(t, err)
				registry.Provide(slowTool{test.limit})

				ledger := &leasedCalls{recorded: make(chan domain.FinishedCall, 1)}
				runner := newRunner(ledger, registry)
				began := time.Now()
				runner.Start(t.Context(), one)

				done := <-ledger.recorded

				synctest.Wait()
				require.Equal(t, test.want, time.Since(began))
				require.Equal(t, domain.CallError, done.Status)
				require.Contains(t, done.Result, "half of it\n[The call took longer than "+test.want.String())
			})
		})
	}

	require.Greater(t, durable.ToolLimit, tools.MaxTimeLimit+time.Minute, "the activity outlasts each call and its record")
}
