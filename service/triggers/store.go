package triggers

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/trigger"
	"everloop/infra/postgres/pg"
)

// Store reads and writes triggers and their deliveries. Triggers of other users do not exist for
// a caller: trigger_not_found. The store keeps secrets sealed.
type Store struct{ db *pg.DB }

// NewStore returns a new store on a database.
func NewStore(db *pg.DB) *Store { return &Store{db} }

const triggerColumns = `
	t.id, t.owner_id, t.name, t.kind, t.auth, t.ends, t.source_kind, t.source_id, t.filter, t.target, t.enabled, t.rate_limit,
	t.last_delivery_at, t.created_at, t.updated_at`

// triggerFields are where triggerColumns are scanned to; done completes the trigger after that.
func triggerFields(t *trigger.Trigger) (into []any, done func()) {
	var (
		kind *trigger.SourceKind
		id   *string
	)

	into = []any{
		&t.ID, &t.OwnerID, &t.Name, &t.Kind, &t.Auth, &t.On, &kind, &id, &t.Filter, &t.Target, &t.Enabled, &t.RateLimit,
		&t.LastDeliveryAt, &t.CreatedAt, &t.UpdatedAt,
	}

	return into, func() {
		if kind != nil {
			t.Source = &trigger.Source{Kind: *kind, ID: *id}
		}
	}
}

func scanTrigger(row pgx.CollectableRow) (t trigger.Trigger, err error) {
	into, done := triggerFields(&t)
	err = row.Scan(into...)

	done()

	return t, err
}

func oneTrigger(ctx context.Context, q pg.Queryer, id, sql string, args pgx.NamedArgs) (trigger.Trigger, error) {
	rows, _ := q.Query(ctx, sql, args)

	t, err := pgx.CollectExactlyOneRow(rows, scanTrigger)
	if errors.Is(err, pgx.ErrNoRows) {
		err = triggerNotFound(id)
	}

	return t, err
}

func triggerNotFound(id string) error {
	return domain.Newf(domain.NotFound, "trigger_not_found", "trigger %s does not exist", domain.CleanText(id))
}

func specArgs(id, ownerID string, spec trigger.Spec, sealed []byte) pgx.NamedArgs {
	args := pgx.NamedArgs{
		"id": id, "owner": ownerID, "name": spec.Name, "kind": spec.Kind, "auth": spec.Auth, "ends": spec.On, "source_kind": nil,
		"source_id": nil, "filter": spec.Filter, "target": spec.Target, "enabled": spec.Enabled, "rate": spec.RateLimit, "sealed": sealed,
	}
	if spec.On == nil {
		args["ends"] = []trigger.RunEvent{}
	}

	if spec.Source != nil {
		args["source_kind"], args["source_id"] = spec.Source.Kind, spec.Source.ID
	}

	return args
}

// CreateTrigger stores a trigger under the id that its secret was sealed for. The error for a user
// who has trigger.MaxTriggers is trigger_limit.
func (s *Store) CreateTrigger(ctx context.Context, ownerID, id string, spec trigger.Spec, sealed []byte) (t trigger.Trigger, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		// The row of the user serialises creations, so that they count each other.
		var count int

		if err := tx.QueryRow(ctx, `
			WITH u AS (SELECT id FROM users WHERE id = $1 FOR NO KEY UPDATE)
			SELECT count(t.id) FROM u LEFT JOIN triggers t ON t.owner_id = u.id`, ownerID).Scan(&count); err != nil {
			return err
		}

		if count >= trigger.MaxTriggers {
			return domain.Newf(domain.Conflict, "trigger_limit", "a user can have %d triggers at most", trigger.MaxTriggers)
		}

		t, err = oneTrigger(ctx, tx, id, `
			INSERT INTO triggers AS t
			       (id, owner_id, name, kind, auth, sealed, ends, source_kind, source_id, filter, target, enabled, rate_limit)
			VALUES (@id, @owner, @name, @kind, @auth, @sealed, @ends, @source_kind, @source_id, @filter, @target, @enabled, @rate)
			RETURNING `+triggerColumns, specArgs(id, ownerID, spec, sealed))

		return err
	})

	return t, pg.Fault("create trigger", err)
}

// Triggers lists the triggers of a user, the newest first.
func (s *Store) Triggers(ctx context.Context, ownerID string) ([]trigger.Trigger, error) {
	rows, _ := s.db.Pool.Query(ctx, `SELECT `+triggerColumns+` FROM triggers t WHERE t.owner_id = $1 ORDER BY t.id DESC`, ownerID)
	list, err := pgx.CollectRows(rows, scanTrigger)

	return list, pg.Fault("list triggers", err)
}

// Trigger reads one trigger of a user.
func (s *Store) Trigger(ctx context.Context, ownerID, id string) (trigger.Trigger, error) {
	t, err := oneTrigger(ctx, s.db.Pool, id, `
		SELECT `+triggerColumns+` FROM triggers t WHERE t.id = @id AND t.owner_id = @owner`, pgx.NamedArgs{"id": id, "owner": ownerID})

	return t, pg.Fault("read trigger", err)
}

// ChangeTrigger changes the fields of a trigger by change, under its lock. Without sealed it keeps
// its secret.
func (s *Store) ChangeTrigger(
	ctx context.Context, ownerID, id string, change func(*trigger.Spec) error, sealed []byte,
) (changed trigger.Trigger, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		was, err := oneTrigger(ctx, tx, id, `
			SELECT `+triggerColumns+` FROM triggers t WHERE t.id = @id AND t.owner_id = @owner FOR NO KEY UPDATE`,
			pgx.NamedArgs{"id": id, "owner": ownerID})
		if err != nil {
			return err
		}

		if err := change(&was.Spec); err != nil {
			return err
		}

		changed, err = oneTrigger(ctx, tx, id, `
			UPDATE triggers t
			SET    name = @name, ends = @ends, source_kind = @source_kind, source_id = @source_id, filter = @filter, target = @target,
			       enabled = @enabled, rate_limit = @rate, sealed = coalesce(@sealed, sealed), updated_at = now()
			WHERE  t.id = @id AND t.owner_id = @owner RETURNING `+triggerColumns, specArgs(id, ownerID, was.Spec, sealed))

		return err
	})

	return changed, pg.Fault("change trigger", err)
}

// DeleteTrigger deletes a trigger and its deliveries. What they started stays.
func (s *Store) DeleteTrigger(ctx context.Context, ownerID, id string) error {
	tag, err := s.db.Pool.Exec(ctx, `DELETE FROM triggers WHERE id = $1 AND owner_id = $2`, id, ownerID)
	if err == nil && tag.RowsAffected() == 0 {
		err = triggerNotFound(id)
	}

	return pg.Fault("delete trigger", err)
}

// OwnsSource reports whether a user has the scheduled task, production solution or issue that a
// trigger follows. Issues belong to the members of their workspace.
func (s *Store) OwnsSource(ctx context.Context, ownerID string, of trigger.Source) (own bool, err error) {
	err = s.db.Pool.QueryRow(ctx, map[trigger.SourceKind]string{
		trigger.SourceTask: `SELECT EXISTS (SELECT 1 FROM scheduled_tasks WHERE id = $2 AND owner_id = $1 AND deleted_at IS NULL)`,
		trigger.SourceDAG:  `SELECT EXISTS (SELECT 1 FROM prod_solutions WHERE id = $2 AND owner_id = $1)`,
		trigger.SourceIssue: `SELECT EXISTS (SELECT 1 FROM issues i JOIN prod_workspace_members m ON m.workspace_id = i.workspace_id
			WHERE i.id = $2 AND m.user_id = $1)`,
	}[of.Kind], ownerID, of.ID).Scan(&own)

	return own, pg.Fault("read the source of a trigger", err)
}

// OwnsSession reports whether a session belongs to a user.
func (s *Store) OwnsSession(ctx context.Context, ownerID string, id domain.SessionID) (own bool, err error) {
	err = s.db.Pool.QueryRow(ctx, `
		SELECT EXISTS (SELECT 1 FROM sessions WHERE id = $2 AND owner_id = $1 AND deleted_at IS NULL)`, ownerID, id).Scan(&own)

	return own, pg.Fault("read the session of a trigger", err)
}
