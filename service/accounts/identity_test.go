package accounts_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres/pgtest"
	"everloop/service/accounts"
)

func person(subject, username string) domain.Identity {
	return domain.Identity{Issuer: "https://id.example", Subject: subject, Username: username, Version: 1}
}

func TestStore_FollowIdentityAccount(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	ctx := t.Context()
	p := person("eve", "eve")
	p.Administrator = true
	eve, _, err := accounts.New(db.DB).IdentityUser(ctx, p)
	require.NoError(t, err)

	key := domain.APIKey{ID: domain.NewID(), UserID: eve.ID, Name: "k", Masked: "m"}
	_, err = accounts.New(db.DB).CreateKey(ctx, key, hashOf("eve"))
	require.NoError(t, err)

	known := func(open, administrator bool) {
		t.Helper()

		found, err := accounts.New(db.DB).IdentityAccounts(ctx, p.Issuer, "", 10)
		require.NoError(t, err)
		require.Equal(t, []domain.IdentityAccount{{UserID: eve.ID, Subject: "eve", Open: open, Administrator: administrator}}, found)

		user, _, found2, err := accounts.New(db.DB).KeyByHash(ctx, hashOf("eve"))
		require.NoError(t, err)
		require.Equal(t, open, found2)
		require.Equal(t, open && administrator, user.Administrator)

		alive := pgtest.CredentialAlive(t, db, eve, key.ID)
		require.Equal(t, open && administrator, alive)
	}
	follow := func(open, administrator, changed bool) {
		t.Helper()

		got, err := accounts.New(db.DB).FollowIdentityAccount(ctx, eve.ID, open, administrator)
		require.NoError(t, err)
		require.Equal(t, changed, got)
	}

	known(true, true)
	follow(true, true, false)
	follow(false, false, true)
	known(false, true)

	_, found, err := accounts.New(db.DB).IdentityUser(ctx, p)
	require.NoError(t, err)
	require.False(t, found, "an access token of before does not open the account")
	follow(false, false, false)
	follow(true, true, true)
	known(true, true)
	follow(true, false, true)
	known(true, false)
	follow(true, false, false)

	require.NoError(t, accounts.New(db.DB).SetAdministrator(ctx, eve.ID, true))
	follow(true, false, false)

	user, err := accounts.New(db.DB).User(ctx, eve.ID)
	require.NoError(t, err)
	require.True(t, user.Administrator, "a right that was granted here stays")

	var actions []string

	require.NoError(t, db.Pool.QueryRow(ctx, `
		SELECT array_agg(action ORDER BY id) FROM audit WHERE target = $1 AND actor_id = '' AND details ->> 'issuer' = $2`,
		eve.ID, p.Issuer).Scan(&actions))
	require.Equal(t, []string{"user.disable", "user.enable", "admin.revoke"}, actions)

	require.NoError(t, accounts.New(db.DB).DeleteUser(ctx, pgtest.User(t, db, "other", true).ID))
	empty, err := accounts.New(db.DB).IdentityAccounts(ctx, "https://other.example", "", 10)
	require.NoError(t, err)
	require.Empty(t, empty)
}

func TestStore_IdentityUser(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	ctx := t.Context()

	var wg sync.WaitGroup

	ids := make([]string, 8)
	for i := range ids {
		wg.Go(func() {
			if user, found, err := accounts.New(db.DB).IdentityUser(ctx, person("eve", "eve")); err == nil && found {
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
	namesake, found, err := accounts.New(db.DB).IdentityUser(ctx, other)
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
	user, _, err := accounts.New(db.DB).IdentityUser(ctx, changed)
	require.NoError(t, err)
	require.Equal(t, "Eve", user.Name)
	require.True(t, user.Administrator)
	user, _, err = accounts.New(db.DB).IdentityUser(ctx, person("eve", "eve"))
	require.NoError(t, err)
	require.Equal(t, "Eve", user.Name, "an older token changes nothing back")

	require.NoError(t, accounts.New(db.DB).DeleteUser(ctx, namesake.ID))
	_, found, err = accounts.New(db.DB).IdentityUser(ctx, other)
	require.NoError(t, err)
	require.False(t, found, "who was deleted does not come back")
}
