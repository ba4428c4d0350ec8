package testkit

import (
	"cmp"
	"testing"
	"time"

	"everloop/domain"
	"everloop/infra/postgres"
	"everloop/service/accounts"
)

// Database opens a database private to this test (see [Postgres]).
func Database(t testing.TB) *postgres.DB {
	t.Helper()
	return OpenDatabase(t, postgres.Options{MaxConns: 8}) // all tests share one server
}

// OpenDatabase is [Database] with options.
func OpenDatabase(t testing.TB, options postgres.Options) *postgres.DB {
	t.Helper()

	options.ConnectTimeout = cmp.Or(options.ConnectTimeout, time.Minute) // for busy machines

	db, err := postgres.Open(t.Context(), Postgres(t), options)
	if err != nil {
		t.Fatalf("open the test's database: %v", err)
	}

	t.Cleanup(db.Close)

	return db
}

// User creates a user with one API key that no request can use.
func User(t testing.TB, db *postgres.DB, name string) domain.User {
	t.Helper()

	user := domain.User{ID: domain.NewID(), Username: name}
	key := domain.APIKey{ID: domain.NewID(), UserID: user.ID, Name: "k", Masked: "m", Scopes: []string{}}
	hash := make([]byte, 32)
	copy(hash, user.ID)

	user, _, err := accounts.New(db.DB).CreateUser(t.Context(), user, key, hash)
	if err != nil {
		t.Fatalf("create user %s: %v", name, err)
	}

	return user
}

// Session creates a session of a user.
func Session(t testing.TB, db *postgres.DB, owner domain.User, in domain.NewSession) domain.Session {
	t.Helper()

	session, err := db.CreateSession(t.Context(), owner.ID, in)
	if err != nil {
		t.Fatalf("create a session: %v", err)
	}

	return session
}
