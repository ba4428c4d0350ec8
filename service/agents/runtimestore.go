package agents

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/prodagent"
	"everloop/infra/postgres/pg"
)

// takesWork is a condition on the row w of workers: it has reported within the last 20
// seconds that it takes work. A worker reports every five.
const takesWork = `w.seen_at > now() - interval '20 seconds'`

// drains is a condition on the row w of workers: it stopped to take work within the last
// 30 seconds, and may still end what it has started.
const drains = `w.draining_at > now() - interval '30 seconds'`

const runtimeColumns = `
	r.id, r.name, r.provider, r.mode,
	CASE WHEN o.workers > 0 THEN 'online' WHEN o.draining > 0 THEN 'draining' ELSE 'offline' END,
	r.version, o.slots, o.used, r.device, o.workers, r.last_seen_at, r.created_at`

const runtimeTables = `
	agent_runtimes r
	CROSS JOIN LATERAL (
		SELECT count(*) FILTER (WHERE ` + takesWork + `) AS workers, count(*) FILTER (WHERE ` + drains + `) AS draining,
		       coalesce(sum(w.slots) FILTER (WHERE ` + takesWork + `), 0) AS slots,
		       coalesce(sum(w.used) FILTER (WHERE ` + takesWork + `), 0) AS used
		FROM   workers w WHERE w.runtime_id = r.id) o`

func scanRuntime(row pgx.CollectableRow) (r prodagent.Runtime, err error) {
	return r, row.Scan(&r.ID, &r.Name, &r.Provider, &r.Mode, &r.Status, &r.Version, &r.Capacity.Slots, &r.Capacity.Used,
		&r.DeviceInfo, &r.Metadata.Workers, &r.LastSeenAt, &r.CreatedAt)
}

// Runtimes lists a page of the runtimes, the built-in one first, and their total.
func (s *Store) Runtimes(ctx context.Context, limit, offset int) (page []prodagent.Runtime, total int, err error) {
	var batch pgx.Batch
	batch.Queue(`
		SELECT `+runtimeColumns+` FROM `+runtimeTables+` ORDER BY r.id <> $1, r.created_at, r.id LIMIT $2 OFFSET $3`,
		prodagent.BuiltinRuntime, limit, offset).
		Query(func(rows pgx.Rows) (err error) {
			page, err = pgx.CollectRows(rows, scanRuntime)
			return err
		})
	batch.Queue(`SELECT count(*) FROM agent_runtimes`).QueryRow(func(row pgx.Row) error { return row.Scan(&total) })

	return page, total, pg.Fault("list agent runtimes", s.db.Pool.SendBatch(ctx, &batch).Close())
}

// AgentRuntime reads a runtime; runtime_not_found.
func (s *Store) AgentRuntime(ctx context.Context, id string) (prodagent.Runtime, error) {
	return s.runtime(ctx, `r.id = $1`, id)
}

// RuntimeOf gives the runtime of a provider that is used for new instances: one that
// takes work before others, then the oldest. An empty provider is the built-in one.
func (s *Store) RuntimeOf(ctx context.Context, provider string) (prodagent.Runtime, error) {
	if provider == "" {
		provider = prodagent.BuiltinRuntime
	}

	return s.runtime(ctx, `r.provider = $1`, provider)
}

// runtime reads the first runtime that a condition of this package selects.
func (s *Store) runtime(ctx context.Context, condition, value string) (prodagent.Runtime, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT `+runtimeColumns+` FROM `+runtimeTables+` WHERE `+condition+` ORDER BY o.workers = 0, r.created_at, r.id LIMIT 1`, value)

	found, err := pgx.CollectExactlyOneRow(rows, scanRuntime)
	if errors.Is(err, pgx.ErrNoRows) {
		err = domain.Newf(domain.NotFound, codeNoRuntime, "there is no such runtime")
	}

	return found, pg.Fault("read agent runtime", err)
}
