package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// SealedBuckets reads those of the user's buckets that are named, all of them
// when none is, by name.
func (a *Store) SealedBuckets(ctx context.Context, userID string, names ...string) ([]domain.SealedBucket, error) {
	rows, _ := a.db.Pool.Query(ctx, `
		SELECT bucket, sealed FROM env_buckets WHERE user_id = $1 AND ($2::text[] IS NULL OR bucket = ANY ($2))
		    ORDER BY bucket`, userID, names)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[domain.SealedBucket])

	return found, pg.Fault("read environment buckets", err)
}

// SetSealedBucket keeps a bucket in place of what it held.
func (a *Store) SetSealedBucket(ctx context.Context, userID string, bucket domain.SealedBucket) error {
	_, err := a.db.Pool.Exec(ctx, `
		INSERT INTO env_buckets (user_id, bucket, sealed) VALUES ($1, $2, $3)
		ON CONFLICT (user_id, bucket) DO UPDATE SET sealed = excluded.sealed, updated_at = now()`, userID, bucket.Bucket, bucket.Sealed)

	return pg.Fault("write environment bucket", err)
}

// DeleteBucket removes a bucket and reports whether there was one.
func (a *Store) DeleteBucket(ctx context.Context, userID, bucket string) (bool, error) {
	tag, err := a.db.Pool.Exec(ctx, `DELETE FROM env_buckets WHERE user_id = $1 AND bucket = $2`, userID, bucket)
	return tag.RowsAffected() > 0, pg.Fault("delete environment bucket", err)
}

// Preference reads what the user keeps under a key; nil when there is nothing.
func (a *Store) Preference(ctx context.Context, userID, key string) (*string, error) {
	var value string

	err := a.db.Pool.QueryRow(ctx, `SELECT value FROM user_preferences WHERE user_id = $1 AND key = $2`, userID, key).Scan(&value)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}

	return &value, pg.Fault("read preference", err)
}

// SetPreference keeps a value under a key.
func (a *Store) SetPreference(ctx context.Context, userID, key, value string) error {
	_, err := a.db.Pool.Exec(ctx, `
		INSERT INTO user_preferences (user_id, key, value) VALUES ($1, $2, $3)
		ON CONFLICT (user_id, key) DO UPDATE SET value = excluded.value, updated_at = now()`, userID, key, value)

	return pg.Fault("write preference", err)
}

// UserProfile reads what a front end keeps for the user; nil and a zero time
// when it has kept nothing yet.
func (a *Store) UserProfile(ctx context.Context, userID string) (profile map[string]json.RawMessage, at time.Time, err error) {
	err = a.db.Pool.QueryRow(ctx, `SELECT profile, updated_at FROM user_profiles WHERE user_id = $1`, userID).Scan(&profile, &at)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, at, nil
	}

	return profile, at, pg.Fault("read profile", err)
}

// SetUserProfile keeps a profile in place of the one before.
func (a *Store) SetUserProfile(ctx context.Context, userID string, profile map[string]json.RawMessage) (at time.Time, err error) {
	err = a.db.Pool.QueryRow(ctx, `
		INSERT INTO user_profiles (user_id, profile) VALUES ($1, $2)
		ON CONFLICT (user_id) DO UPDATE SET profile = excluded.profile, updated_at = now() RETURNING updated_at`, userID, profile).Scan(&at)

	return at, pg.Fault("write profile", err)
}
