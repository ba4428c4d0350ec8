package systemtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// With PARALLEL_TOOLS=1 the calls of a turn run one after another, those that are started
// early and those that the run starts.
func TestParallelTools(t *testing.T) {
	t.Parallel()

	for _, slow := range []bool{false, true} {
		t.Run(fmt.Sprintf("no_fast_paths_%t", slow), func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			s.worker.Stop()
			s.acts.Model.Plans.Parallel, s.acts.Fast.Parallel, s.acts.Fast.Off = 1, 1, slow
			s.startWorker()

			session := s.session()
			s.talk(session, "go"+script(obj{"steps": []obj{
				{"calls": []obj{bash("sleep 0.3"), bash("sleep 0.3"), bash("sleep 0.3")}}, {"text": "done"},
			}}))

			rows, err := s.db.Pool.Query(
				t.Context(),
				`SELECT started_at FROM tool_calls WHERE session_id = $1 ORDER BY started_at`,
				session,
			)
			require.NoError(t, err)
			began, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
			require.NoError(t, err)
			require.Len(t, began, 3)
			require.GreaterOrEqual(t, began[1].Sub(began[0]), 300*time.Millisecond)
			require.GreaterOrEqual(t, began[2].Sub(began[1]), 300*time.Millisecond)
		})
	}
}
