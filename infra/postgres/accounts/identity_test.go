package accounts_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres/pgtest"
)

func person(subject, username string) domain.Identity {
	return domain.Identity{Issuer: "https://id.example", Subject: subject, Username: username, Version: 1}
}

func TestStore_IdentityUser(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	ctx := t.Context()

	var wg sync.WaitGroup

	ids := make([]string, 8)
	for i := range ids {
		wg.Go(func() {
			if user, found, err := db.IdentityUser(ctx, person("eve", "eve")); err == nil && found {
				ids[i] = user.ID
			}
		})
	}

	wg.Wait()

	for _, id := range ids {
		require.NotEmpty(t, id)
		require.Equal(t, ids[0], id, "one person is one user")
	}

	other := person("eve", "Eve")
	other.Issuer = "https://other.example"
	namesake, found, err := db.IdentityUser(ctx, other)
	require.NoError(t, err)
	require.True(t, found)
	require.NotEqual(t, ids[0], namesake.ID, "the same subject of another issuer is another person")
	require.Equal(t, "Eve-eve", namesake.Username)

	var made []string

	require.NoError(t, db.Pool.QueryRow(ctx, `
		SELECT array_agg(target ORDER BY id) FROM audit WHERE action = 'user.create' AND actor_id = target`).Scan(&made))
	require.Equal(t, []string{ids[0], namesake.ID}, made, "each first sign-in is recorded once")

	changed := person("eve", "eve")
	changed.Name, changed.Administrator, changed.Version = "Eve", true, 2
	user, _, err := db.IdentityUser(ctx, changed)
	require.NoError(t, err)
	require.Equal(t, "Eve", user.Name)
	require.True(t, user.Administrator)
	user, _, err = db.IdentityUser(ctx, person("eve", "eve"))
	require.NoError(t, err)
	require.Equal(t, "Eve", user.Name, "an older token changes nothing back")

	require.NoError(t, db.DeleteUser(ctx, namesake.ID))
	_, found, err = db.IdentityUser(ctx, other)
	require.NoError(t, err)
	require.False(t, found, "who was deleted does not come back")
}
