// Package accounts stores who uses the service: users, API keys, administrators, the
// audit log, preferences, network rules and idempotency keys. It knows no session.
package accounts

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// Store reads and writes users, their API keys and what is theirs alone.
type Store struct{ db *pg.DB }

// New returns the store on a database.
func New(db *pg.DB) *Store { return &Store{db} }

const userColumns = `id, username, name, email, avatar_url, administrator, created_at`

// userNotFound returns the answer for a user who is missing or deleted.
func userNotFound(id string) *domain.Error {
	return domain.Newf(domain.NotFound, "user_not_found", "user %s does not exist", id)
}

// CreateUser creates an account together with its first API key. A user name
// that is taken, in whatever case, is a conflict.
func (a *Store) CreateUser(ctx context.Context, user domain.User, key domain.APIKey, hash []byte) (domain.User, domain.APIKey, error) {
	var (
		madeUser domain.User
		madeKey  domain.APIKey
	)

	err := a.db.InTx(ctx, func(tx pgx.Tx) (err error) {
		if madeUser, err = insertUser(ctx, tx, user); err != nil {
			return err
		}

		madeKey, err = insertKey(ctx, tx, key, hash, false)

		return err
	})
	if pg.HasState(err, pg.UniqueViolation) {
		return domain.User{}, domain.APIKey{}, domain.Newf(domain.Conflict, "username_taken", "this user name is taken")
	}

	return madeUser, madeKey, pg.Fault("create user", err)
}

func insertUser(ctx context.Context, tx pgx.Tx, user domain.User) (domain.User, error) {
	rows, _ := tx.Query(ctx, `
		INSERT INTO users (id, username, name, email, avatar_url, administrator)
		VALUES (@id, @username, @name, @email, @avatar, @administrator)
		RETURNING `+userColumns,
		pgx.NamedArgs{
			"id": user.ID, "username": user.Username, "name": user.Name, "email": user.Email,
			"avatar": user.AvatarURL, "administrator": user.Administrator,
		})

	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[domain.User])
}

// Users lists all accounts, oldest first.
func (a *Store) Users(ctx context.Context) ([]domain.User, error) {
	rows, _ := a.db.Pool.Query(ctx, `SELECT `+userColumns+` FROM users WHERE deleted_at IS NULL ORDER BY id`)
	users, err := pgx.CollectRows(rows, pgx.RowToStructByName[domain.User])

	return users, pg.Fault("list users", err)
}

// User reads one account.
func (a *Store) User(ctx context.Context, id string) (domain.User, error) {
	rows, _ := a.db.Pool.Query(ctx, `SELECT `+userColumns+` FROM users WHERE id = $1 AND deleted_at IS NULL`, id)

	user, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[domain.User])
	if errors.Is(err, pgx.ErrNoRows) {
		return domain.User{}, userNotFound(id)
	}

	return user, pg.Fault("read user", err)
}

// DeleteUser closes an account, revokes its keys and stops what works in its name; what the
// user made stays.
// The last administrator cannot be deleted.
func (a *Store) DeleteUser(ctx context.Context, id string) error {
	err := a.db.InTx(ctx, func(tx pgx.Tx) error {
		administrators, err := lockAdministrators(ctx, tx)
		if err != nil {
			return err
		}

		if len(administrators) == 1 && administrators[0] == id {
			return lastAdministrator()
		}

		tag, err := tx.Exec(ctx, `UPDATE users SET deleted_at = now() WHERE id = $1 AND deleted_at IS NULL`, id)
		if err != nil {
			return err
		}

		if tag.RowsAffected() == 0 {
			return userNotFound(id)
		}
		// Secrets of tool servers go with their user; those of the service stay.
		if _, err := tx.Exec(ctx, `DELETE FROM mcp_servers WHERE owner_id = $1 AND scope <> 'service'`, id); err != nil {
			return err
		}
		// So do those of webhooks, with what was to be sent.
		if _, err := tx.Exec(ctx, `DELETE FROM webhooks WHERE owner_id = $1`, id); err != nil {
			return err
		}
		// What works in the user's name without them ends.
		if _, err := tx.Exec(ctx, `
			UPDATE scheduled_tasks SET deleted_at = now(), enabled = false, pending = 'deleted'
			WHERE  owner_id = $1 AND deleted_at IS NULL`, id); err != nil {
			return err
		}

		if _, err = tx.Exec(ctx, `UPDATE api_keys SET revoked_at = now() WHERE user_id = $1 AND revoked_at IS NULL`, id); err != nil {
			return err
		}

		return stopWork(ctx, tx, id)
	})

	return pg.Fault("delete user", err)
}

// bootstrapLock serialises processes that start at once.
const bootstrapLock = 0x65766572_626f6f74 // "everboot"

// EnsureBootstrap gives the service its first administrator. Without force it
// acts only where there is no user yet. With force the key is the operator's
// word: user.Username becomes or stays an administrator, the key is theirs, even
// after a revocation, and earlier bootstrap keys end. It reports whether it wrote
// anything.
func (a *Store) EnsureBootstrap(ctx context.Context, user domain.User, key domain.APIKey, hash []byte, force bool) (wrote bool, err error) {
	err = a.db.InTx(ctx, func(tx pgx.Tx) error {
		wrote = false

		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(bootstrapLock)); err != nil {
			return err
		}

		var populated, current bool

		err := tx.QueryRow(ctx, `
			SELECT EXISTS (SELECT 1 FROM users),
			       EXISTS (SELECT 1 FROM api_keys k JOIN users u ON u.id = k.user_id
			               WHERE k.hash = $1 AND k.bootstrap AND k.revoked_at IS NULL
			               AND   u.administrator AND u.deleted_at IS NULL)`, hash).Scan(&populated, &current)
		if err != nil || current || (populated && !force) {
			return err
		}

		wrote = true

		return putBootstrap(ctx, tx, user, key, hash)
	})

	return wrote, pg.Fault("set up the first administrator", err)
}

func putBootstrap(ctx context.Context, tx pgx.Tx, user domain.User, key domain.APIKey, hash []byte) error {
	err := tx.QueryRow(ctx, `
		UPDATE users SET administrator = true
		WHERE  lower(username) = lower($1) AND deleted_at IS NULL
		RETURNING id`, user.Username).Scan(&key.UserID)
	if errors.Is(err, pgx.ErrNoRows) {
		if _, err = insertUser(ctx, tx, user); err != nil {
			return err
		}

		key.UserID = user.ID
	} else if err != nil {
		return err
	}

	if _, err := tx.Exec(ctx, `UPDATE api_keys SET revoked_at = now() WHERE bootstrap AND revoked_at IS NULL`); err != nil {
		return err
	}

	tag, err := tx.Exec(ctx, `
		UPDATE api_keys SET revoked_at = NULL, expires_at = NULL, bootstrap = true, user_id = $2, scopes = '{}'
		WHERE  hash = $1`, hash, key.UserID)
	if err != nil || tag.RowsAffected() == 1 {
		return err
	}

	_, err = insertKey(ctx, tx, key, hash, true)

	return err
}
