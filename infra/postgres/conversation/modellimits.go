package conversation

import (
	"context"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

const limitColumns = `model, coalesce(session_id, ''), kind, subject, digest, coalesce(reported, 0), coalesce(estimated, 0), learned_at`

func scanLimit(row pgx.CollectableRow) (l domain.ModelLimit, err error) {
	err = row.Scan(&l.Model, &l.SessionID, &l.Kind, &l.Subject, &l.Digest, &l.Cut.Reported, &l.Cut.Estimated, &l.LearnedAt)
	l.Cut.At = l.LearnedAt

	return l, err
}

// ModelLimits returns what the servers of all models do not take of the requests of any
// session.
func (db *Base) ModelLimits(ctx context.Context) ([]domain.ModelLimit, error) {
	return db.limits(ctx, `session_id IS NULL`)
}

// SessionLimits returns the images and tool servers of a session that the server of a model
// does not take.
func (db *Base) SessionLimits(ctx context.Context, sessionID domain.SessionID, model string) ([]domain.ModelLimit, error) {
	return db.limits(ctx, `session_id = $2 AND model = $3`, sessionID, model)
}

// AllLimits returns the newest limits, also those of sessions.
func (db *Base) AllLimits(ctx context.Context) ([]domain.ModelLimit, error) {
	return db.limits(ctx, `true`)
}

func (db *Base) limits(ctx context.Context, which string, args ...any) ([]domain.ModelLimit, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT `+limitColumns+` FROM model_limits WHERE learned_at > now() - $1::interval AND `+which+`
		ORDER  BY learned_at DESC, model, kind, subject LIMIT 1000`, append([]any{domain.ModelLimitFor}, args...)...)
	limits, err := pgx.CollectRows(rows, scanLimit)

	return limits, pg.Fault("read limits of models", err)
}

// KeepModelLimits records what the server of a model does not take, and removes expired
// records.
func (db *Base) KeepModelLimits(ctx context.Context, limits ...domain.ModelLimit) error {
	if _, err := db.Pool.Exec(ctx, `DELETE FROM model_limits WHERE learned_at < now() - $1::interval`, domain.ModelLimitFor); err != nil {
		return pg.Fault("remove limits of models", err)
	}

	for _, l := range limits {
		_, err := db.Pool.Exec(ctx, `
			INSERT INTO model_limits (model, session_id, kind, subject, digest, reported, estimated)
			VALUES ($1, nullif($2, ''), $3, $4, $5, nullif($6, 0::bigint), nullif($7, 0::bigint))
			ON CONFLICT (session_id, model, kind, subject, digest)
			DO UPDATE SET reported = excluded.reported, estimated = excluded.estimated, learned_at = now()`,
			l.Model, l.SessionID, l.Kind, l.Subject, l.Digest, l.Cut.Reported, l.Cut.Estimated)
		if err != nil {
			return pg.Fault("keep a limit of a model", err)
		}
	}

	return nil
}
