package sessions

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// ExtraInfo returns what clients keep with a session. The caller is authorised.
func (db *Base) ExtraInfo(ctx context.Context, sessionID domain.SessionID) (domain.ExtraInfo, error) {
	info := domain.ExtraInfo{SessionID: &sessionID, Extra: json.RawMessage("{}")}

	err := db.Pool.QueryRow(ctx, `SELECT extra, created_at, updated_at FROM session_extras WHERE session_id = $1`, sessionID).
		Scan(&info.Extra, &info.CreatedAt, &info.UpdatedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}

	return info, pg.Fault("read extra info", err)
}

// MergeExtraInfo sets the top-level keys that are given and removes those that
// are null. The caller owns the session.
func (db *Base) MergeExtraInfo(
	ctx context.Context,
	sessionID domain.SessionID,
	change map[string]json.RawMessage,
) (domain.ExtraInfo, error) {
	set, removed := map[string]json.RawMessage{}, []string{}

	for key, value := range change {
		if string(value) == "null" {
			removed = append(removed, key)
		} else {
			set[key] = value
		}
	}

	info := domain.ExtraInfo{SessionID: &sessionID}
	err := db.InTx(ctx, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `
			INSERT INTO session_extras AS x (session_id, extra) VALUES ($1, $2::jsonb)
			ON CONFLICT (session_id) DO UPDATE SET extra = (x.extra || $2::jsonb) - $3::text[], updated_at = now()
			RETURNING extra, created_at, updated_at`, sessionID, set, removed).Scan(&info.Extra, &info.CreatedAt, &info.UpdatedAt)
		if err == nil && len(info.Extra) > domain.MaxExtraInfo {
			return domain.Newf(domain.TooLarge, "extra_info_too_large", "the extra info of a session may hold %d bytes of "+
				"JSON", domain.MaxExtraInfo)
		}

		return err
	})

	return info, pg.Fault("keep extra info", err)
}

// ExtraInfoByTask finds, among the owner's sessions, the one whose extra.task_id
// is the task's; of several the one that was changed last. Without any, the
// session is null and the extra empty.
func (db *Base) ExtraInfoByTask(ctx context.Context, ownerID, taskID string) (domain.ExtraInfo, error) {
	info := domain.ExtraInfo{Extra: json.RawMessage("{}")}

	err := db.Pool.QueryRow(ctx, `
		SELECT x.session_id, x.extra, x.created_at, x.updated_at
		FROM   session_extras x JOIN sessions s ON s.id = x.session_id
		WHERE  left(x.extra ->> 'task_id', 255) = left($2, 255) AND x.extra ->> 'task_id' = $2
		AND    s.owner_id = $1 AND s.deleted_at IS NULL
		ORDER  BY x.updated_at DESC LIMIT 1`, ownerID, taskID).
		Scan(&info.SessionID, &info.Extra, &info.CreatedAt, &info.UpdatedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}

	return info, pg.Fault("find extra info", err)
}
