package accounts_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/board"
	"everloop/domain/prodagent"
	"everloop/infra/postgres/pgtest"
	"everloop/service/accounts"
	"everloop/service/agents"
	boards "everloop/service/board"
)

func TestStore_AllowSecrets(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.Open(t), t.Context()
	ann, ben := pgtest.User(t, db, "ann", false), pgtest.User(t, db, "ben", false)
	workspace, err := boards.NewStore(db.DB).
		CreateWorkspace(ctx, ann.ID, board.NewWorkspace{Name: "Web", Settings: board.DefaultWorkspaceSettings})
	require.NoError(t, err)

	agent, err := agents.NewStore(db.DB).CreateAgentInstance(ctx, prodagent.Instance{
		ID: domain.NewID(), OwnerID: ann.ID, Name: "Builder", RuntimeID: prodagent.BuiltinRuntime, MaxConcurrentTasks: 1,
	})
	require.NoError(t, err)

	run := func(workspaceID *string) domain.Session {
		made, err := db.CreateSession(ctx, ann.ID, domain.NewSession{
			WorkspaceID: workspaceID, Setup: domain.SessionSetup{Agent: &domain.SessionAgent{InstanceID: agent.ID}},
		})
		require.NoError(t, err)

		return made
	}
	requireAllowed := func(session domain.Session, want, holds bool, why string) {
		t.Helper()

		allowed, err := accounts.New(db.DB).AllowSecrets(ctx, session)
		require.NoError(t, err)
		require.Equal(t, want, allowed, why)

		got, err := db.HoldsSecrets(ctx, session.ID)
		require.NoError(t, err)
		require.Equal(t, holds, got, why)
	}

	requireAllowed(run(nil), true, false, "no other user reads a session outside of workspaces")

	first := run(&workspace.ID)
	requireAllowed(first, true, true, "the owner is the only member")
	pgtest.Join(t, boards.NewStore(db.DB), ann.ID, workspace.ID, ben.ID, board.WorkspaceViewer)
	requireAllowed(first, false, true, "another member reads it, and its files keep what they got")

	second := run(&workspace.ID)
	requireAllowed(second, false, false, "not allowed")

	share := func(secrets bool) {
		_, err := agents.NewStore(db.DB).ChangeAgentInstance(ctx, ann.ID, agent.ID, prodagent.InstanceChange{
			SharedWith: []prodagent.Share{{WorkspaceID: workspace.ID, Secrets: secrets}},
		})
		require.NoError(t, err)
	}
	share(false)
	requireAllowed(second, false, false, "shared without secrets")
	share(true)
	requireAllowed(second, true, true, "the owner allows it")
}
