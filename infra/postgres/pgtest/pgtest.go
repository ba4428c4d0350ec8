// Package pgtest opens stores for tests.
package pgtest

import (
	"testing"

	"everloop/domain"
	"everloop/infra/postgres"
	"everloop/internal/testkit"
)

// Open returns the stores on an empty database with the schema. It is closed when the
// test ends.
func Open(t testing.TB) *postgres.DB {
	t.Helper()

	return testkit.OpenDatabase(t, postgres.Options{MaxConns: 8})
}

// User creates a user with one API key.
func User(t testing.TB, db *postgres.DB, name string, administrator bool) domain.User {
	t.Helper()

	user := domain.User{ID: domain.NewID(), Username: name, Administrator: administrator}
	hash := [32]byte{}
	copy(hash[:], user.ID)

	made, _, err := db.CreateUser(t.Context(), user, domain.APIKey{ID: domain.NewID(), UserID: user.ID, Name: "k", Masked: "m"}, hash[:])
	if err != nil {
		t.Fatalf("create user %s: %v", name, err)
	}

	return made
}
