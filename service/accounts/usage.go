package accounts

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// usageSums are the sums of rows of usage.
const usageSums = `
	coalesce(sum(calls), 0)::bigint, coalesce(sum(input_tokens), 0)::bigint, coalesce(sum(output_tokens), 0)::bigint,
	coalesce(sum(cache_read_tokens), 0)::bigint, coalesce(sum(cache_write_tokens), 0)::bigint, coalesce(sum(cost_nano), 0)::bigint,
	coalesce(sum(input_tokens) FILTER (WHERE NOT priced), 0)::bigint, coalesce(sum(output_tokens) FILTER (WHERE NOT priced), 0)::bigint,
	coalesce(sum(cache_read_tokens) FILTER (WHERE NOT priced), 0)::bigint,
	coalesce(sum(cache_write_tokens) FILTER (WHERE NOT priced), 0)::bigint`

func sumFields(s *domain.UsageSums) []any {
	return []any{
		&s.Calls, &s.InputTokens, &s.OutputTokens, &s.CacheReadTokens, &s.CacheWriteTokens, &s.Cost,
		&s.Uncosted.InputTokens, &s.Uncosted.OutputTokens, &s.Uncosted.CacheReadTokens, &s.Uncosted.CacheWriteTokens,
	}
}

// usageRows returns the usage within the days of a report: of sessions, and of those that are
// deleted. Only a report by solution reads the sessions.
func usageRows(bySolution bool) string {
	const sums = `r.priced, r.calls, r.input_tokens, r.output_tokens, r.cache_read_tokens, r.cache_write_tokens, r.cost_nano`

	const asked = ` WHERE r.day >= @from AND r.day < @to AND (@user = '' OR r.owner_id = @user)`

	solution, sessions := "''", ""
	if bySolution {
		solution, sessions = "coalesce(s.solution_id, '')", " JOIN sessions s ON s.id = r.session_id"
	}

	return `
	(SELECT r.owner_id, r.day, r.model, ` + solution + ` AS solution, ` + sums + ` FROM session_usage r` + sessions + asked + `
	 UNION  ALL
	 SELECT r.owner_id, r.day, r.model, r.solution_id, ` + sums + ` FROM deleted_usage r` + asked + `) u`
}

// Usage reports what model calls have used.
func (a *Store) Usage(ctx context.Context, q domain.UsageQuery) (domain.UsageReport, error) {
	report := domain.UsageReport{From: q.From.Format(time.DateOnly), To: q.To.Format(time.DateOnly)}
	args := pgx.NamedArgs{
		"user": q.UserID, "from": q.From, "to": q.To, "offset": q.Offset, "limit": q.Limit + 1,
		"by_day":   slices.Contains(q.Groups, domain.UsageByDay),
		"by_model": slices.Contains(q.Groups, domain.UsageByModel),
		"by_user":  slices.Contains(q.Groups, domain.UsageByUser),
	}
	bySolution := slices.Contains(q.Groups, domain.UsageBySolution)
	args["by_solution"] = bySolution

	var batch pgx.Batch
	batch.Queue(`SELECT `+usageSums+` FROM `+usageRows(false), args).QueryRow(func(row pgx.Row) error {
		return row.Scan(sumFields(&report.Total)...)
	})
	batch.Queue(`
		SELECT g.day, g.model, g.solution, g.owner, (SELECT username FROM users WHERE id = g.owner), `+usageSums+`
		FROM   (SELECT CASE WHEN @by_day THEN to_char(day, 'YYYY-MM-DD') END AS day, CASE WHEN @by_model THEN model END AS model,
		               CASE WHEN @by_solution THEN solution END AS solution, CASE WHEN @by_user THEN owner_id END AS owner,
		               priced, calls, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_nano
		        FROM   `+usageRows(bySolution)+`) g
		GROUP  BY 1, 2, 3, 4
		ORDER  BY 1, sum(cost_nano) DESC, sum(input_tokens + output_tokens) DESC, 2, 3, 4 OFFSET @offset LIMIT @limit`, args).
		Query(func(rows pgx.Rows) (err error) {
			report.Items, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (item domain.UsageItem, err error) {
				groups := []any{&item.Day, &item.Model, &item.SolutionID, &item.UserID, &item.Username}

				return item, row.Scan(append(groups, sumFields(&item.UsageSums)...)...)
			})

			return err
		})
	err := a.db.Pool.SendBatch(ctx, &batch).Close()

	if len(report.Items) > q.Limit {
		report.Items, report.More = report.Items[:q.Limit], true
	}

	return report, pg.Fault("report usage", err)
}

// SessionUsage reports what the model calls of a session have used. The caller has
// authorised the reader.
func (a *Store) SessionUsage(ctx context.Context, sessionID domain.SessionID) (domain.SessionUsage, error) {
	usage := domain.SessionUsage{SessionID: sessionID}

	var batch pgx.Batch
	batch.Queue(`SELECT min(first_at), max(last_at), `+usageSums+` FROM session_usage WHERE session_id = $1`, sessionID).
		QueryRow(func(row pgx.Row) error {
			return row.Scan(append([]any{&usage.FirstAt, &usage.LastAt}, sumFields(&usage.UsageSums)...)...)
		})
	batch.Queue(`
		SELECT model, `+usageSums+` FROM session_usage WHERE session_id = $1
		GROUP  BY model ORDER BY sum(cost_nano) DESC, sum(input_tokens + output_tokens) DESC, model
		    LIMIT $2`, sessionID, domain.MaxUsagePage).
		Query(func(rows pgx.Rows) (err error) {
			usage.ByModel, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (item domain.UsageItem, err error) {
				return item, row.Scan(append([]any{&item.Model}, sumFields(&item.UsageSums)...)...)
			})

			return err
		})
	err := a.db.Pool.SendBatch(ctx, &batch).Close()

	return usage, pg.Fault("report the usage of a session", err)
}

// PruneUsage forgets the usage of deleted sessions on days that are longer ago than age.
func (a *Store) PruneUsage(ctx context.Context, age time.Duration, limit int) (int64, error) {
	return a.db.Prune(ctx, "forget old usage", `
		DELETE FROM deleted_usage WHERE ctid = ANY (ARRAY (
			SELECT ctid FROM deleted_usage WHERE day < (now() - $1::interval)::date ORDER BY day LIMIT $2))`, age, limit)
}
