package api_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/service/compute"
)

var computeWalk = []call{
	{method: "POST", path: "/api/user/compute-env/reset", scope: "sessions:write", url: "/api/user/compute-env/reset", status: 200},
	{method: "GET", path: "/api/user/compute-env/upgrade", scope: "sessions:read", url: "/api/user/compute-env/upgrade", status: 200},
	{method: "POST", path: "/api/user/compute-env/upgrade", scope: "sessions:write", url: "/api/user/compute-env/upgrade", status: 200},
}

// stopper notes what is ended.
type stopper struct{ tasks, users []string }

func (s *stopper) Stop(_ context.Context, _ domain.SessionID, taskID string) (domain.BackgroundTask, error) {
	s.tasks = append(s.tasks, taskID)
	return domain.BackgroundTask{}, nil
}

func (s *stopper) UserDeleted(_ context.Context, userID string) error {
	s.users = append(s.users, userID)
	return nil
}

func TestComputeEnvironment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ended := &stopper{}
	environments, err := compute.New(compute.Config{Store: w.db, Tasks: ended, ToolServers: ended, Version: "2"})
	require.NoError(t, err)

	session, other := w.session("{}"), w.do("POST", "/api/sessions", w.bob, "{}").json()["session_id"].(string)
	for _, id := range []string{session, other} {
		_, err := w.db.Pool.Exec(t.Context(), `
			WITH c AS (INSERT INTO chats (id, session_id, branch_id, trigger, mode, state)
			           SELECT 'c' || $1, id, active_branch_id, 'user', 'executing', 'ended' FROM sessions WHERE id = $1 RETURNING *),
			     b AS (INSERT INTO background_tasks (id, session_id, chat_id, tool_call_id, kind, title, command, status, output_path)
			           SELECT 'b' || $1, session_id, id, 'x', 'shell', 't', 'sleep 9', 'running', 'o' FROM c)
			INSERT INTO file_reads (session_id, path, etag) VALUES ($1, 'a', 'e'), ($1, 'b', 'e')`, id)
		require.NoError(t, err)
	}

	_, err = w.db.ComputeVersion(t.Context(), w.annID, "1")
	require.NoError(t, err)
	check, err := environments.CheckUpgrade(t.Context(), w.annID)
	require.NoError(t, err)
	require.True(t, check.UpgradeAvailable)
	require.Equal(t, []string{"1", "2"}, []string{check.CurrentVersion, check.TargetVersion})

	_, err = w.db.Pool.Exec(t.Context(), `UPDATE sessions SET status = 'running' WHERE id = $1`, session)
	require.NoError(t, err)
	_, err = environments.Upgrade(t.Context(), w.annID)
	require.True(t, domain.HasCode(err, "compute_env_busy"), "%v", err)
	require.Empty(t, ended.tasks)
	_, err = w.db.Pool.Exec(t.Context(), `UPDATE sessions SET status = 'completed' WHERE id = $1`, session)
	require.NoError(t, err)
	done, err := environments.Upgrade(t.Context(), w.annID)
	require.NoError(t, err)
	require.Equal(t, domain.ComputeReset{RemovedContainers: 1, ClearedMemo: 2}, done)
	require.Equal(t, []string{"b" + session}, ended.tasks, "other people's run on")
	require.Equal(t, []string{w.annID}, ended.users)
	done, err = environments.Upgrade(t.Context(), w.annID)
	require.NoError(t, err)
	require.Zero(t, done, "it is up to date")
}
