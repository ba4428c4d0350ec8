package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/infra/postgres/pgtest"
	"everloop/service/tasks"
)

// failing is a Temporal that fails for the workflows of most tasks.
type failing struct {
	tasks.Runs
	fails    map[string]bool
	started  []string
	describe []string
}

func (f *failing) fault(id string) error {
	if f.fails[id] {
		return errors.New("refused")
	}

	return nil
}

func (f *failing) StartTask(_ context.Context, in contract.TaskInput) error {
	f.started = append(f.started, in.TaskID)
	return f.fault(in.TaskID)
}

func (f *failing) DescribeTask(_ context.Context, id string) (domain.RunState, string, error) {
	f.describe = append(f.describe, id)
	return domain.RunOpen, "", f.fault(id)
}

// TestService_Repair_reachesAllTasks holds that neither tasks that cannot be repaired nor tasks that
// need no repair keep others from their repair, on more than one page of tasks.
func TestService_Repair_reachesAllTasks(t *testing.T) {
	t.Parallel()

	const crowd = 510 // more than a page

	db := pgtest.Open(t)
	j, _, session, chat := pgtest.Running(t, db)
	runs := &failing{fails: map[string]bool{}}
	names := map[string][]string{}

	for kind, columns := range map[string]string{
		"unclaimed": `'shell', 0, NULL`, "abandoned": `'shell', 1, now() - interval '1 hour'`, "agent": `'agent', 0, NULL`,
	} {
		for n := 1; n <= crowd; n++ {
			id := fmt.Sprintf("%s-%03d", kind, n)
			names[kind] = append(names[kind], id)
			runs.fails[id] = n <= crowd-5
		}

		_, err := db.Pool.Exec(t.Context(), `
			INSERT INTO background_tasks (id, session_id, title, status, output_path, started_at, kind, attempt, lease_expires_at)
			SELECT id, $1, id, 'running', '', now() - interval '1 hour', `+columns+` FROM unnest($2::text[]) id`, session, names[kind])
		require.NoError(t, err)
	}

	_, err := db.Pool.Exec(t.Context(), `
		INSERT INTO entries (id, session_id, branch_id, sequence, chat_id, role, status, blocks)
		SELECT 'turn', s.id, s.active_branch_id, 101, $2, 'assistant', 'completed', '[]' FROM sessions s WHERE s.id = $1`, session, chat)
	require.NoError(t, err)
	_, err = db.Pool.Exec(t.Context(), `
		INSERT INTO tool_calls (id, session_id, chat_id, entry_id, position, tool_name, display_name, arguments, status, phase)
		SELECT id, $1, $2, 'turn', n, 'Agent', 'Agent', '{}', 'pending', 'queued' FROM unnest($3::text[]) WITH ORDINALITY t (id, n)`,
		session, chat, names["agent"])
	require.NoError(t, err)
	_, err = db.Pool.Exec(t.Context(), `
		INSERT INTO loops (id, session_id, chat_id, branch_id, parent_loop_id, task_id, background, depth, agent_type, description, prompt,
		                   max_steps, time_limit_s)
		SELECT task, s.id, $2, s.active_branch_id, 'root', task, true, 1, 'general-purpose', '', '', 1, 1
		FROM   sessions s, unnest($3::text[]) task WHERE s.id = $1`, session, chat, names["agent"])
	require.NoError(t, err)

	service := tasks.New(tasks.Deps{
		DB: db.DB, Outbox: j.Outbox, Chats: j.ChatStore(), Runs: runs, Logger: slog.New(slog.DiscardHandler),
	})
	require.ErrorContains(t, service.Repair(t.Context()), "refused")
	require.Equal(t, names["unclaimed"], runs.started)
	require.Equal(t, names["agent"], runs.describe)

	var lost int
	require.NoError(t, db.Pool.QueryRow(t.Context(), `
		SELECT count(*) FROM background_tasks WHERE status = 'lost' AND id = ANY ($1)`, names["abandoned"]).Scan(&lost))
	require.Equal(t, crowd, lost)
}
