// Package accounts contains the shared access to the tables of the identity service: users, the
// ends of their sessions, and the audit log. It must not depend on HTTP.
package accounts

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// SchemaLock is the advisory lock of migrations, and of other work that one process does at a
// time.
const SchemaLock = 0x65766572_6964656e // "everiden"

// MaxCredential bounds a token or the value of a cookie, in bytes.
const MaxCredential = 4096

// User is a person with an account.
type User struct {
	ID            string    `json:"id" db:"id"`
	Username      string    `json:"username" db:"username"`
	Name          string    `json:"name" db:"name"`
	Email         string    `json:"email" db:"email"`
	Administrator bool      `json:"administrator" db:"administrator"`
	First         bool      `json:"first_administrator" db:"first"`
	Disabled      bool      `json:"disabled" db:"disabled"`
	Version       int64     `json:"version" db:"version"`
	CreatedAt     time.Time `json:"created_at" db:"created_at"`
}

// Columns are the columns of a User in identity.users u.
const Columns = `u.id, u.username, u.name, u.email, u.administrator, u.first, u.disabled, u.version, u.created_at`

// Columns returns the scan targets of the constant Columns.
func (u *User) Columns() []any {
	return []any{&u.ID, &u.Username, &u.Name, &u.Email, &u.Administrator, &u.First, &u.Disabled, &u.Version, &u.CreatedAt}
}

// Querier is a pool or a transaction.
type Querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// NewID returns a new id, which sorts by time.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// Hash returns the stored form of a random secret: it has too many bits to be guessed, so that
// a plain SHA-256 suffices.
func Hash(secret string) []byte {
	hash := sha256.Sum256([]byte(secret))
	return hash[:]
}

// Audit records an action in the audit log.
func Audit(ctx context.Context, q Querier, actor, action, target string, details map[string]string) error {
	if details == nil {
		details = map[string]string{}
	}

	text, err := json.Marshal(details)
	if err != nil {
		return err
	}

	_, err = q.Exec(ctx, `INSERT INTO identity.audit (actor_id, action, target, details) VALUES ($1, $2, $3, $4)`,
		actor, action, target, string(text))

	return err
}
