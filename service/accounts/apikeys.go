package accounts

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

const keyColumns = `id, user_id, name, masked, scopes, expires_at, created_at, last_used_at, last_used_ip`

// keyNotFound returns the answer for a key that is missing, revoked or another
// user's.
func keyNotFound(id string) *domain.Error {
	return domain.Newf(domain.NotFound, "api_key_not_found", "API key %s does not exist", id)
}

// CreateKey keeps a new key of key.UserID under the SHA-256 of its plaintext.
func (a *Store) CreateKey(ctx context.Context, key domain.APIKey, hash []byte) (domain.APIKey, error) {
	return insertKey(ctx, a.db.Pool, key, hash, false)
}

func insertKey(ctx context.Context, q pg.Queryer, key domain.APIKey, hash []byte, bootstrap bool) (domain.APIKey, error) {
	if key.Scopes == nil {
		key.Scopes = []string{}
	}

	rows, _ := q.Query(ctx, `
		INSERT INTO api_keys (id, user_id, name, hash, masked, scopes, bootstrap, expires_at)
		VALUES (@id, @user, @name, @hash, @masked, @scopes, @bootstrap, @expires)
		RETURNING `+keyColumns,
		pgx.NamedArgs{
			"id": key.ID, "user": key.UserID, "name": key.Name, "hash": hash, "masked": key.Masked,
			"scopes": key.Scopes, "bootstrap": bootstrap, "expires": key.ExpiresAt,
		})
	made, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[domain.APIKey])

	return made, pg.Fault("create API key", err)
}

// Keys lists a user's keys, newest first; revoked ones are gone.
func (a *Store) Keys(ctx context.Context, userID string) ([]domain.APIKey, error) {
	rows, _ := a.db.Pool.Query(ctx, `
		SELECT `+keyColumns+`
		FROM   api_keys
		WHERE  user_id = @user AND revoked_at IS NULL
		ORDER  BY id DESC`,
		pgx.NamedArgs{"user": userID})
	keys, err := pgx.CollectRows(rows, pgx.RowToStructByName[domain.APIKey])

	return keys, pg.Fault("list API keys", err)
}

// Key reads one key of a user.
func (a *Store) Key(ctx context.Context, userID, id string) (domain.APIKey, error) {
	rows, _ := a.db.Pool.Query(ctx, `
		SELECT `+keyColumns+`
		FROM   api_keys
		WHERE  id = @id AND user_id = @user AND revoked_at IS NULL`,
		pgx.NamedArgs{"id": id, "user": userID})

	return oneKey(rows, id, "read API key")
}

// RenameKey returns a user's key another name.
func (a *Store) RenameKey(ctx context.Context, userID, id, name string) (domain.APIKey, error) {
	rows, _ := a.db.Pool.Query(ctx, `
		UPDATE api_keys
		SET    name = @name
		WHERE  id = @id AND user_id = @user AND revoked_at IS NULL
		RETURNING `+keyColumns,
		pgx.NamedArgs{"id": id, "user": userID, "name": name})

	return oneKey(rows, id, "rename API key")
}

// RevokeKey ends a user's key permanently. The row stays, so that the same secret
// can never come back under another name.
func (a *Store) RevokeKey(ctx context.Context, userID, id string) error {
	tag, err := a.db.Pool.Exec(ctx, `
		UPDATE api_keys
		SET    revoked_at = now()
		WHERE  id = @id AND user_id = @user AND revoked_at IS NULL`,
		pgx.NamedArgs{"id": id, "user": userID})
	if err == nil && tag.RowsAffected() == 0 {
		return keyNotFound(id)
	}

	return pg.Fault("revoke API key", err)
}

func oneKey(rows pgx.Rows, id, doing string) (domain.APIKey, error) {
	key, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[domain.APIKey])
	if errors.Is(err, pgx.ErrNoRows) {
		return domain.APIKey{}, keyNotFound(id)
	}

	return key, pg.Fault(doing, err)
}

// KeyByHash finds the live key with that SHA-256, and its user. Unknown,
// revoked and expired keys and those of closed accounts are all the same: found
// is false.
func (a *Store) KeyByHash(ctx context.Context, hash []byte) (user domain.User, key domain.APIKey, found bool, err error) {
	err = a.db.Pool.QueryRow(ctx, `
		SELECT k.id, k.user_id, k.name, k.masked, k.scopes, k.expires_at, k.created_at, k.last_used_at, k.last_used_ip,
		       u.id, u.username, u.name, u.email, u.avatar_url, u.administrator, u.created_at,
		       coalesce(u.issuer, ''), coalesce(u.subject, '')
		FROM   api_keys k JOIN users u ON u.id = k.user_id
		WHERE  k.hash = $1 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
		AND    NOT u.closed`, hash,
	).Scan(&key.ID, &key.UserID, &key.Name, &key.Masked, &key.Scopes, &key.ExpiresAt, &key.CreatedAt, &key.LastUsedAt, &key.LastUsedIP,
		&user.ID, &user.Username, &user.Name, &user.Email, &user.AvatarURL, &user.Administrator, &user.CreatedAt,
		&user.Issuer, &user.Subject)
	if errors.Is(err, pgx.ErrNoRows) {
		return domain.User{}, domain.APIKey{}, false, nil
	}

	return user, key, err == nil, pg.Fault("look up API key", err)
}

// CredentialsAlive reports of each caller whether the account of the user is open and, when
// the caller came with a key, whether that key of the user can still be used.
func (a *Store) CredentialsAlive(ctx context.Context, callers []domain.Caller) ([]bool, error) {
	users, administrators, keys := make([]string, len(callers)), make([]bool, len(callers)), make([]string, len(callers))
	for i, caller := range callers {
		users[i], administrators[i], keys[i] = caller.User.ID, caller.User.Administrator, caller.KeyID
	}

	rows, _ := a.db.Pool.Query(ctx, `
		SELECT EXISTS (SELECT 1 FROM users u WHERE u.id = c.user_id AND NOT u.closed AND (u.administrator OR NOT c.administrator))
		AND   (c.key_id = '' OR EXISTS (
			SELECT 1 FROM api_keys k
			WHERE  k.id = c.key_id AND k.user_id = c.user_id AND k.revoked_at IS NULL
			AND    (k.expires_at IS NULL OR k.expires_at > now())))
		FROM   unnest(@users::text[], @administrators::boolean[], @keys::text[]) WITH ORDINALITY AS c (user_id, administrator, key_id, n)
		ORDER  BY c.n`,
		pgx.NamedArgs{"users": users, "administrators": administrators, "keys": keys})
	alive, err := pgx.CollectRows(rows, pgx.RowTo[bool])

	return alive, pg.Fault("check credentials", err)
}

// TouchKeys records when and from where keys were last used; a time never moves back.
func (a *Store) TouchKeys(ctx context.Context, used map[string]domain.KeyUse) error {
	ids, times, addresses := make([]string, 0, len(used)), make([]time.Time, 0, len(used)), make([]string, 0, len(used))
	for id, use := range used {
		ids, times, addresses = append(ids, id), append(times, use.At), append(addresses, use.IP)
	}

	_, err := a.db.Pool.Exec(ctx, `
		UPDATE api_keys k
		SET    last_used_at = u.at, last_used_ip = nullif(u.ip, '')
		FROM   unnest(@ids::text[], @times::timestamptz[], @addresses::text[]) AS u (id, at, ip)
		WHERE  k.id = u.id AND (k.last_used_at IS NULL OR k.last_used_at <= u.at)`,
		pgx.NamedArgs{"ids": ids, "times": times, "addresses": addresses})

	return pg.Fault("record use of API keys", err)
}
