package app

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/auth"
	"everloop/domain"
	"everloop/infra/postgres/pgtest"
)

// TestAccess_socketRights connects over Socket.IO with every kind of credential, and asks for
// its role on a session of another user, which session:subscribe and chat:send need.
func TestAccess_socketRights(t *testing.T) {
	t.Parallel()

	db := pgtest.Open(t)
	owner := pgtest.User(t, db, "owner", false)
	session, err := db.CreateSession(t.Context(), owner.ID, domain.NewSession{})
	require.NoError(t, err)

	a := access{db: db, auth: auth.New(db, auth.Options{})}
	t.Cleanup(a.auth.Close)

	keyOf := func(userID string, scopes ...string) string {
		key, plaintext, hash := auth.NewKey(userID, "k")
		key.Scopes = scopes
		_, err := db.CreateKey(t.Context(), key, hash[:])
		require.NoError(t, err)

		return plaintext
	}
	connect := func(key string) (domain.Caller, error) {
		found, err := a.handshake(t.Context(), key, &http.Request{RemoteAddr: "198.51.100.1:443", Header: http.Header{}})
		caller, _ := found.(domain.Caller)

		return caller, err
	}
	role := func(key string) string {
		caller, err := connect(key)
		require.NoError(t, err)

		role, err := a.Role(t.Context(), caller, session.ID)
		if err != nil {
			return domain.AsError(err).Code
		}

		return string(role)
	}

	root := pgtest.User(t, db, "root", true)
	require.Equal(t, string(domain.ViewerAdmin), role(keyOf(root.ID)))
	require.Equal(t, domain.CodeSessionNotFound, role(keyOf(pgtest.User(t, db, "other", false).ID)))

	for _, scope := range []auth.Scope{auth.SessionsRead, auth.SessionsWrite, auth.Chat} {
		require.Equal(t, domain.CodeSessionNotFound, role(keyOf(root.ID, string(scope))), "an administrator with %s", scope)
		require.Equal(t, string(domain.ViewerAdmin), role(keyOf(root.ID, string(scope), string(auth.Admin))))
	}

	_, err = connect(keyOf(root.ID, string(auth.Admin)))
	require.ErrorContains(t, err, auth.CodeScopeMissing, "no event is for this scope")

	ends := map[string]func(userID string){
		"disabled": func(userID string) {
			_, err := db.Pool.Exec(t.Context(), `UPDATE users SET disabled_at = now() WHERE id = $1`, userID)
			require.NoError(t, err)
		},
		"deleted": func(userID string) { require.NoError(t, db.DeleteUser(t.Context(), userID)) },
		"demoted": func(userID string) { require.NoError(t, db.SetAdministrator(t.Context(), userID, false)) },
	}

	for name, end := range ends {
		user := pgtest.User(t, db, name, true)
		before, after := keyOf(user.ID), keyOf(user.ID)
		caller, err := connect(before)
		require.NoError(t, err)

		end(user.ID)
		a.auth.Forget(t.Context(), domain.RightsChange{UserID: user.ID})

		require.False(t, a.Alive(t.Context(), []domain.Caller{caller})[0], "the open connection of a %s user", name)

		if name == "demoted" {
			require.Equal(t, domain.CodeSessionNotFound, role(after))
			continue
		}

		_, err = connect(after)
		require.Equal(t, domain.CodeUnauthorized, domain.AsError(err).Code, name)
	}
}
