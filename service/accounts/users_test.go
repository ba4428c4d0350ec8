package accounts_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
	"everloop/service/accounts"
)

func hashOf(s string) []byte {
	h := make([]byte, 32)
	copy(h, s)

	return h
}

func TestUsers(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	root := pgtest.User(t, db, "root", true)
	ann := pgtest.User(t, db, "Ann", false)

	t.Run("names are taken in any case", func(t *testing.T) {
		again := domain.User{ID: domain.NewID(), Username: "aNN"}
		_, _, err := accounts.New(db.DB).CreateUser(
			t.Context(),
			again,
			domain.APIKey{ID: domain.NewID(), UserID: again.ID, Name: "k", Masked: "m"},
			hashOf("other"),
		)
		require.True(t, domain.HasCode(err, "username_taken"), err)
	})
	t.Run("the list has all users, oldest first", func(t *testing.T) {
		users, err := accounts.New(db.DB).Users(t.Context())
		require.NoError(t, err)
		require.Len(t, users, 2)
		require.Equal(t, []string{root.ID, ann.ID}, []string{users[0].ID, users[1].ID})
	})
	t.Run("the last administrator stays", func(t *testing.T) {
		require.True(t, domain.HasCode(accounts.New(db.DB).DeleteUser(t.Context(), root.ID), "last_administrator"))
	})
	t.Run("a deleted user is gone with their keys, and their name is free", func(t *testing.T) {
		_, _, found, err := accounts.New(db.DB).KeyByHash(t.Context(), hashOf(ann.ID))
		require.NoError(t, err)
		require.True(t, found)
		require.NoError(t, accounts.New(db.DB).DeleteUser(t.Context(), ann.ID))
		_, _, found, err = accounts.New(db.DB).KeyByHash(t.Context(), hashOf(ann.ID))
		require.NoError(t, err)
		require.False(t, found)
		_, err = accounts.New(db.DB).User(t.Context(), ann.ID)
		require.True(t, domain.HasCode(err, "user_not_found"))
		require.True(t, domain.HasCode(accounts.New(db.DB).DeleteUser(t.Context(), ann.ID), "user_not_found"))
		pgtest.User(t, db, "ann", false)
	})
	t.Run("two administrators cannot remove each other at once", func(t *testing.T) {
		other := pgtest.User(t, db, "other", true)
		results := make(chan error, 2)

		for _, id := range []string{root.ID, other.ID} {
			go func() { results <- accounts.New(db.DB).DeleteUser(t.Context(), id) }()
		}

		failed := 0

		for range 2 {
			if <-results != nil {
				failed++
			}
		}

		require.Equal(t, 1, failed)
	})
}

func TestEnsureBootstrap(t *testing.T) {
	t.Parallel()
	enter := func(t *testing.T, db *postgres.DB, plaintext string, force bool) bool {
		t.Helper()

		admin := domain.User{ID: domain.NewID(), Username: "admin", Administrator: true}
		key := domain.APIKey{ID: domain.NewID(), UserID: admin.ID, Name: "bootstrap", Masked: "m"}
		wrote, err := accounts.New(db.DB).EnsureBootstrap(t.Context(), admin, key, hashOf(plaintext), force)
		require.NoError(t, err)

		return wrote
	}
	works := func(t *testing.T, db *postgres.DB, plaintext string) bool {
		t.Helper()
		user, _, found, err := accounts.New(db.DB).KeyByHash(t.Context(), hashOf(plaintext))
		require.NoError(t, err)

		return found && user.Administrator && user.Username == "admin"
	}
	t.Run("without a word of the operator only the first start makes a key", func(t *testing.T) {
		t.Parallel()
		db := pgtest.Open(t)
		require.True(t, enter(t, db, "first", false))
		require.False(t, enter(t, db, "second", false))
		require.True(t, works(t, db, "first"))
		require.False(t, works(t, db, "second"))
	})
	t.Run("several processes at once make one", func(t *testing.T) {
		t.Parallel()
		db := pgtest.Open(t)

		var (
			wrote [6]bool
			all   sync.WaitGroup
		)
		for i := range wrote {
			all.Go(func() { wrote[i] = enter(t, db, string(rune('a'+i)), false) })
		}

		all.Wait()

		n := 0

		for _, w := range wrote {
			if w {
				n++
			}
		}

		require.Equal(t, 1, n)
	})
	t.Run("the operator's key replaces the one before", func(t *testing.T) {
		t.Parallel()
		db := pgtest.Open(t)
		require.True(t, enter(t, db, "A", true))
		require.False(t, enter(t, db, "A", true), "nothing to do at the next start")
		require.True(t, enter(t, db, "B", true))
		require.False(t, works(t, db, "A"))
		require.True(t, works(t, db, "B"))
		require.True(t, enter(t, db, "A", true), "and back")
		require.True(t, works(t, db, "A"))
		require.False(t, works(t, db, "B"))
	})
}

func TestKeys(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	ann, bob := pgtest.User(t, db, "ann", false), pgtest.User(t, db, "bob", false)
	soon := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	key, err := accounts.New(db.DB).CreateKey(
		t.Context(),
		domain.APIKey{
			ID:        domain.NewID(),
			UserID:    ann.ID,
			Name:      "ci",
			Masked:    "el_abc...wxyz",
			Scopes:    []string{"chat"},
			ExpiresAt: &soon,
		},
		hashOf("ci"),
	)
	require.NoError(t, err)
	require.Equal(t, soon, *key.ExpiresAt)

	t.Run("the owner's are listed newest first", func(t *testing.T) {
		keys, err := accounts.New(db.DB).Keys(t.Context(), ann.ID)
		require.NoError(t, err)
		require.Len(t, keys, 2)
		require.Equal(t, key, keys[0])
	})
	t.Run("another user's do not exist", func(t *testing.T) {
		_, err := accounts.New(db.DB).Key(t.Context(), bob.ID, key.ID)
		require.True(t, domain.HasCode(err, "api_key_not_found"))
		_, err = accounts.New(db.DB).RenameKey(t.Context(), bob.ID, key.ID, "mine")
		require.True(t, domain.HasCode(err, "api_key_not_found"))
		require.True(t, domain.HasCode(accounts.New(db.DB).RevokeKey(t.Context(), bob.ID, key.ID), "api_key_not_found"))
	})
	t.Run("use is recorded and never moves back", func(t *testing.T) {
		late := time.Now().UTC().Truncate(time.Microsecond)
		require.NoError(t, accounts.New(db.DB).TouchKeys(t.Context(), map[string]domain.KeyUse{key.ID: {At: late, IP: "192.0.2.1"}}))
		require.NoError(
			t,
			accounts.New(db.DB).TouchKeys(t.Context(), map[string]domain.KeyUse{key.ID: {At: late.Add(-time.Hour), IP: "192.0.2.2"}}),
		)
		read, err := accounts.New(db.DB).Key(t.Context(), ann.ID, key.ID)
		require.NoError(t, err)
		require.Equal(t, late, *read.LastUsedAt)
		require.Equal(t, "192.0.2.1", *read.LastUsedIP)
	})
	t.Run("an expired one is unknown", func(t *testing.T) {
		past := time.Now().Add(-time.Second)
		old, err := accounts.New(db.DB).CreateKey(
			t.Context(),
			domain.APIKey{ID: domain.NewID(), UserID: ann.ID, Name: "old", Masked: "m", ExpiresAt: &past},
			hashOf("old"),
		)
		require.NoError(t, err)
		_, _, found, err := accounts.New(db.DB).KeyByHash(t.Context(), hashOf("old"))
		require.NoError(t, err)
		require.False(t, found)
		alive := pgtest.CredentialAlive(t, db, ann, old.ID)
		require.False(t, alive)
	})
	t.Run("a revoked one is unknown", func(t *testing.T) {
		user, found, ok, err := accounts.New(db.DB).KeyByHash(t.Context(), hashOf("ci"))
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, ann.ID, user.ID)
		require.Equal(t, []string{"chat"}, found.Scopes)
		alive := pgtest.CredentialAlive(t, db, ann, key.ID)
		require.True(t, alive)

		require.NoError(t, accounts.New(db.DB).RevokeKey(t.Context(), ann.ID, key.ID))
		_, _, ok, err = accounts.New(db.DB).KeyByHash(t.Context(), hashOf("ci"))
		require.NoError(t, err)
		require.False(t, ok)
		alive = pgtest.CredentialAlive(t, db, ann, key.ID)
		require.False(t, alive)
		_, err = accounts.New(db.DB).Key(t.Context(), ann.ID, key.ID)
		require.True(t, domain.HasCode(err, "api_key_not_found"))
	})
	t.Run("one of an administrator lives as long as the right", func(t *testing.T) {
		for _, was := range []bool{true, false} {
			now, then := ann, ann
			now.Administrator, then.Administrator = true, true

			_, err := db.Pool.Exec(t.Context(), `UPDATE users SET administrator = $2 WHERE id = $1`, ann.ID, was)
			require.NoError(t, err)
			alive := pgtest.CredentialAlive(t, db, then, "")
			require.Equal(t, was, alive)

			now.Administrator = false
			alive = pgtest.CredentialAlive(t, db, now, "")
			require.True(t, alive, "who came in without it needs it not")
		}
	})
	t.Run("a credential without a key lives as long as its user", func(t *testing.T) {
		alive := pgtest.CredentialAlive(t, db, bob, "")
		require.True(t, alive)
		alive = pgtest.CredentialAlive(t, db, domain.User{ID: "unknown"}, "")
		require.False(t, alive)
	})
}
