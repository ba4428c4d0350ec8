package agents_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/prodagent"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
	"everloop/service/agents"
	"everloop/service/tasks"
)

func newAgent(owner domain.User, name string) prodagent.Agent {
	return prodagent.Agent{
		Summary: prodagent.Summary{
			RecordID: domain.NewID(), AgentID: name, OwnerID: owner.ID, Name: name, SolutionID: "general", BizRoleID: "operator",
			Skills: []string{"a"}, LayoutType: "default", Visibility: prodagent.VisibilityWorkspace,
		},
		Instructions: "do", SkillsData: map[string]any{"k": "v"}, PreviewURLs: []domain.PreviewURL{{Name: "n", URL: "/x"}},
	}
}

func newInstance(owner domain.User) prodagent.Instance {
	return prodagent.Instance{
		ID: domain.NewID(), OwnerID: owner.ID, RuntimeID: prodagent.BuiltinRuntime, Name: "i", Visibility: prodagent.VisibilityPrivate,
		MaxConcurrentTasks: 1, Spec: prodagent.Spec{Skills: []string{"a"}, InitScript: "true"}, Instructions: "do",
		Env: domain.SessionEnv{"TOKEN": "t"},
	}
}

func requireCode(t *testing.T, code string, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, code, domain.AsError(err).Code, err.Error())
}

func TestStore_prodAgents(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.Open(t), t.Context()
	store := agents.NewStore(db.DB)
	ann, ben := pgtest.User(t, db, "ann", false), pgtest.User(t, db, "ben", false)
	in := newAgent(ann, "reviewer")
	made, err := store.CreateProdAgent(ctx, in)
	require.NoError(t, err)

	in.Version, in.CreatedAt, in.UpdatedAt = 1, made.CreatedAt, made.UpdatedAt
	require.Equal(t, in, made)

	_, err = store.CreateProdAgent(ctx, newAgent(ann, "reviewer"))
	requireCode(t, "agent_id_taken", err)
	_, err = store.CreateProdAgent(ctx, newAgent(ben, "reviewer"))
	require.NoError(t, err)

	found, err := store.ProdAgentByName(ctx, ann.ID, "reviewer")
	require.NoError(t, err)
	require.Equal(t, made, found)
	_, err = store.ProdAgent(ctx, ben.ID, made.RecordID)
	requireCode(t, "prod_agent_not_found", err)
	known, err := store.KnownAgents(ctx, ann.ID, []string{"reviewer", "unknown"})
	require.NoError(t, err)
	require.Equal(t, []string{"reviewer"}, known)

	made.Name = "Other"
	changed, err := store.ReplaceProdAgent(ctx, made)
	require.NoError(t, err)
	require.Equal(t, []any{"Other", 2}, []any{changed.Name, changed.Version})

	instance := newInstance(ann)
	instance.RecordID = &made.RecordID
	_, err = store.CreateAgentInstance(ctx, instance)
	require.NoError(t, err)
	requireCode(t, "prod_agent_not_found", store.DeleteProdAgent(ctx, ben.ID, made.RecordID))
	require.NoError(t, store.DeleteProdAgent(ctx, ann.ID, made.RecordID))
	left, err := store.AgentInstance(ctx, ann.ID, instance.ID)
	require.NoError(t, err)
	require.Nil(t, left.RecordID)
	require.Equal(t, "true", left.Spec.InitScript)
	require.Equal(t, "do", left.Spec.Instructions)
}

func TestStore_limits(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.Open(t), t.Context()
	store := agents.NewStore(db.DB)
	ann := pgtest.User(t, db, "ann", false)
	_, err := store.CreateProdAgent(ctx, newAgent(ann, "first"))
	require.NoError(t, err)
	_, err = db.Pool.Exec(ctx, `
		INSERT INTO prod_agents (id, owner_id, agent_id, name, icon, solution_id, biz_role_id, agent_template, instructions, skills,
		    skills_data,
		                         init_script, layout_type, preview_urls, runtime_provider, visibility)
		SELECT id || n, owner_id, agent_id || n, name, icon, solution_id, biz_role_id, '', '', skills, skills_data,
		       '', '', preview_urls, '', visibility
		FROM prod_agents, generate_series(2, $1) n`, prodagent.MaxAgents)
	require.NoError(t, err)
	_, err = store.CreateProdAgent(ctx, newAgent(ann, "one more"))
	requireCode(t, "prod_agent_limit", err)

	_, err = store.CreateAgentInstance(ctx, newInstance(ann))
	require.NoError(t, err)
	_, err = db.Pool.Exec(ctx, `
		INSERT INTO agent_instances (id, owner_id, runtime_id, name, icon, instructions, template, max_concurrent_tasks, visibility)
		SELECT id || n, owner_id, runtime_id, name, icon, '', template, 1, visibility FROM agent_instances, generate_series(2, $1) n`,
		prodagent.MaxInstances)
	require.NoError(t, err)
	_, err = store.CreateAgentInstance(ctx, newInstance(ann))
	requireCode(t, "agent_instance_limit", err)
}

// A worker that is replaced leaves its runtime as it was.
func TestStore_runtimes(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.Open(t), t.Context()
	store := agents.NewStore(db.DB)
	runtimes := func() (shown []prodagent.Runtime) {
		shown, total, err := store.Runtimes(ctx, 10, 0)
		require.NoError(t, err)
		require.Len(t, shown, total)

		return shown
	}
	require.Equal(t, []any{prodagent.BuiltinRuntime, prodagent.RuntimeOffline}, []any{runtimes()[0].ID, runtimes()[0].Status})
	gpu := prodagent.WorkerReport{
		ID: "w1", Provider: "gpu", Name: "room", Mode: prodagent.RuntimeCloud, Version: "1", Slots: 5, Used: 2,
		Device: prodagent.RuntimeDevice{OS: "linux", Arch: "amd64", CPUs: 2},
	}
	require.NoError(t, db.ReportWorker(ctx, gpu))
	gpu.ID, gpu.Version = "w2", "2"
	require.NoError(t, db.ReportWorker(ctx, gpu))
	require.NoError(t, db.ReportWorker(ctx, gpu))

	found := runtimes()[1]
	require.Equal(t, []any{prodagent.RuntimeOnline, "2", 2, prodagent.RuntimeCapacity{Slots: 10, Used: 4}, gpu.Device},
		[]any{found.Status, found.Version, found.Metadata.Workers, found.Capacity, found.DeviceInfo})

	chosen, err := store.RuntimeOf(ctx, "gpu")
	require.NoError(t, err)
	require.Equal(t, found.ID, chosen.ID)

	_, err = store.RuntimeOf(ctx, "none")
	requireCode(t, "runtime_not_found", err)

	for _, id := range []string{"w1", "w2"} {
		require.NoError(t, db.ReportWorkerStopped(ctx, id))
	}

	require.Equal(t, prodagent.RuntimeDraining, runtimes()[1].Status)

	_, err = db.Pool.Exec(ctx, `UPDATE workers SET draining_at = now() - interval '1 minute'`)
	require.NoError(t, err)
	require.Equal(t, prodagent.RuntimeOffline, runtimes()[1].Status)

	gpu.ID = "w3"
	require.NoError(t, db.ReportWorker(ctx, gpu))
	require.Equal(t, []any{found.ID, prodagent.RuntimeOnline}, []any{runtimes()[1].ID, runtimes()[1].Status})
}

// A worker that was killed says nothing of it: 20 seconds after its last report its runtime
// is offline, without a time in which it drains, and other workers of the runtime count on.
func TestStore_runtimes_lostWorker(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.Open(t), t.Context()
	store := agents.NewStore(db.DB)
	report := prodagent.WorkerReport{Provider: "gpu", Name: "room", Mode: prodagent.RuntimeCloud, Version: "1", Slots: 5, Used: 2}
	runtime := func() prodagent.Runtime {
		found, err := store.RuntimeOf(ctx, "gpu")
		require.NoError(t, err)

		return found
	}
	lose := func(id string) {
		_, err := db.Pool.Exec(ctx, `UPDATE workers SET seen_at = now() - interval '20 seconds' WHERE id = $1`, id)
		require.NoError(t, err)
	}

	for _, report.ID = range []string{"killed", "left"} {
		require.NoError(t, db.ReportWorker(ctx, report))
	}

	lose("killed")
	require.Equal(t, []any{prodagent.RuntimeOnline, 1, prodagent.RuntimeCapacity{Slots: 5, Used: 2}},
		[]any{runtime().Status, runtime().Metadata.Workers, runtime().Capacity})

	lose("left")
	require.Equal(t, []any{prodagent.RuntimeOffline, 0, prodagent.RuntimeCapacity{}},
		[]any{runtime().Status, runtime().Metadata.Workers, runtime().Capacity})
}

func sessionOf(t *testing.T, db *postgres.DB, owner domain.User, instanceID string) string {
	t.Helper()

	id := domain.NewID()

	in := domain.NewSession{ID: domain.SessionID(id), InitScript: "true"}
	for range 2 { // a start that is repeated makes nothing twice
		require.NoError(t, db.EnsureSession(t.Context(), owner.ID, in))
		require.NoError(t, agents.NewStore(db.DB).NoteAgentSession(t.Context(), domain.SessionID(id), instanceID))
	}

	return id
}

func TestStore_statusOfAnInstance(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.Open(t), t.Context()
	store := agents.NewStore(db.DB)
	ann := pgtest.User(t, db, "ann", false)
	made, err := store.CreateAgentInstance(ctx, newInstance(ann))
	require.NoError(t, err)
	require.Equal(t, prodagent.InstanceOffline, made.Status)
	require.NoError(t, db.ReportWorker(ctx, prodagent.WorkerReport{ID: "w"}))

	status := func() prodagent.InstanceStatus {
		read, err := store.AgentInstance(ctx, ann.ID, made.ID)
		require.NoError(t, err)

		return read.Status
	}
	require.Equal(t, prodagent.InstanceIdle, status())

	first, second := sessionOf(t, db, ann, made.ID), sessionOf(t, db, ann, made.ID)
	require.Equal(t, prodagent.InstanceIdle, status())

	for _, step := range []struct {
		session, status string
		want            prodagent.InstanceStatus
	}{
		{first, "failed", prodagent.InstanceError},
		{second, "completed", prodagent.InstanceIdle},
		{second, "waiting_for_input", prodagent.InstanceBlocked},
		{first, "running", prodagent.InstanceWorking},
		{first, "completed", prodagent.InstanceBlocked},
	} {
		_, err := db.Pool.Exec(ctx, `UPDATE sessions SET status = $2, updated_at = clock_timestamp()
			WHERE id = $1`, step.session, step.status)
		require.NoError(t, err)
		require.Equal(t, step.want, status(), step.status)
	}

	require.NoError(t, db.DeleteSession(ctx, domain.SessionID(second)))
	require.Equal(t, prodagent.InstanceIdle, status())
	require.NoError(t, store.DeleteAgentInstance(ctx, ann.ID, made.ID))
	_, err = store.AgentInstance(ctx, ann.ID, made.ID)
	requireCode(t, "agent_instance_not_found", err)
}

// A session and the task of its init script are made together, once.
func TestDB_EnsureSession_initScript(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.Open(t), t.Context()
	ann := pgtest.User(t, db, "ann", false)
	id := domain.NewID()

	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			_ = db.EnsureSession(ctx, ann.ID, domain.NewSession{ID: domain.SessionID(id), InitScript: "echo hi"})
		}) // one wins
	}

	wg.Wait()
	require.NoError(t, db.EnsureSession(ctx, ann.ID, domain.NewSession{ID: domain.SessionID(id), InitScript: "echo hi"}))
	started, err := tasks.NewStore(db.DB, nil).List(ctx, domain.SessionID(id))
	require.NoError(t, err)
	require.Len(t, started, 1)
	require.Equal(t, []any{domain.InitTaskID(domain.SessionID(id)), domain.TaskRunning, "bash .everloop/tasks/init_" + id + ".sh"},
		[]any{started[0].TaskID, started[0].Status, *started[0].Command})
	session, _, err := db.ReadSession(ctx, ann, domain.SessionID(id))
	require.NoError(t, err)
	require.Equal(t, domain.InitTaskID(domain.SessionID(id)), *session.InitTaskID)
}
