// Package pgtest opens stores for tests.
package pgtest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/board"
	"everloop/infra/postgres"
	"everloop/internal/testkit"
	"everloop/service/accounts"
)

// Open returns the stores on an empty database with the schema. It is closed when the
// test ends.
func Open(t testing.TB) *postgres.DB {
	t.Helper()

	return testkit.OpenDatabase(t, postgres.Options{MaxConns: 8})
}

// CredentialAlive reports whether the account of the user, and the key where one is named,
// can be used.
func CredentialAlive(t testing.TB, db *postgres.DB, user domain.User, keyID string) bool {
	t.Helper()
	alive, err := accounts.New(db.DB).CredentialsAlive(t.Context(), []domain.Caller{{User: user, KeyID: keyID}})
	require.NoError(t, err)

	return alive[0]
}

// User creates a user with one API key.
func User(t testing.TB, db *postgres.DB, name string, administrator bool) domain.User {
	t.Helper()

	user := domain.User{ID: domain.NewID(), Username: name, Administrator: administrator}
	hash := [32]byte{}
	copy(hash[:], user.ID)

	made, _, err := accounts.New(db.DB).
		CreateUser(t.Context(), user, domain.APIKey{ID: domain.NewID(), UserID: user.ID, Name: "k", Masked: "m"}, hash[:])
	if err != nil {
		t.Fatalf("create user %s: %v", name, err)
	}

	return made
}

// Members changes the members of workspaces.
type Members interface {
	SetMember(ctx context.Context, callerID, workspaceID, user string, role board.WorkspaceRole) (board.WorkspaceMembership, error)
	AcceptInvitation(ctx context.Context, userID, id string) (board.Workspace, error)
}

// Join makes a user a member of a workspace: the caller invites them, and they accept.
func Join(t testing.TB, db Members, callerID, workspaceID, userID string, role board.WorkspaceRole) {
	t.Helper()

	set, err := db.SetMember(t.Context(), callerID, workspaceID, userID, role)
	if err == nil && set.State == board.MemberInvited {
		_, err = db.AcceptInvitation(t.Context(), userID, set.ID)
	}

	if err != nil {
		t.Fatalf("join workspace: %v", err)
	}
}
