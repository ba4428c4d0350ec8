package sessions_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres/pgtest"
)

func TestBase_OwnSessionRun_callers(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	ann, bob, root := pgtest.User(t, db, "ann", false), pgtest.User(t, db, "bob", false), pgtest.User(t, db, "root", true)
	model, solution := "m-1", "general"
	made, err := db.CreateSession(t.Context(), ann.ID, domain.NewSession{Model: &model, SolutionID: &solution})
	require.NoError(t, err)

	run, err := db.OwnSessionRun(t.Context(), ann, made.ID)
	require.NoError(t, err)
	require.Equal(t, domain.SessionRun{SessionID: made.ID, OwnerID: ann.ID, SolutionID: solution, Model: &model}, run)

	refused := func(caller domain.User, id domain.SessionID, code string) {
		t.Helper()

		run, err := db.OwnSessionRun(t.Context(), caller, id)
		require.True(t, domain.HasCode(err, code), "%v", err)
		require.Zero(t, run)

		_, err = db.OwnSession(t.Context(), caller, id)
		require.True(t, domain.HasCode(err, code), "as OwnSession: %v", err)
	}
	refused(bob, made.ID, domain.CodeSessionNotFound)
	refused(root, made.ID, "forbidden")
	refused(ann, "none", domain.CodeSessionNotFound)

	_, err = db.SetSessionShared(t.Context(), ann, made.ID, true)
	require.NoError(t, err)
	refused(bob, made.ID, "forbidden")
}
