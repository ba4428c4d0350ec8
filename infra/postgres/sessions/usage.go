package sessions

import (
	"github.com/jackc/pgx/v5"

	"everloop/domain"
)

// UsageColumns returns the usage of the row with the given name, of a table that has sums.
// UsageFields scans them.
func UsageColumns(row string) string {
	return callColumns(row) + `, CASE WHEN ` + row + `.cost_nano > 0 THEN ` + row + `.uncosted_tokens ELSE 0 END`
}

// TurnUsageColumns are UsageColumns of an entry, whose tokens all have a cost or none
// has.
func TurnUsageColumns(row string) string { return callColumns(row) + `, 0::bigint` }

func callColumns(row string) string {
	return row + `.input_tokens, ` + row + `.output_tokens, ` + row + `.cache_read_tokens, ` + row + `.cache_write_tokens, ` +
		row + `.cost_nano`
}

// UsageFields returns where UsageColumns and TurnUsageColumns go.
func UsageFields(u *domain.Usage) []any {
	return []any{&u.InputTokens, &u.OutputTokens, &u.CacheReadTokens, &u.CacheWriteTokens, &u.Cost, &u.UncostedTokens}
}

// UsageArgs returns the parameters of AddToSession, AddToChat and CountUsage for what one
// call of a model has used.
func UsageArgs(model string, u domain.Usage) pgx.NamedArgs {
	return pgx.NamedArgs{
		"used_model": model, "priced": u.UncostedTokens == 0, "input": u.InputTokens, "output": u.OutputTokens,
		"cache_read": u.CacheReadTokens, "cache_write": u.CacheWriteTokens, "cost": u.Cost, "uncosted": u.UncostedTokens,
	}
}

// AddToSession are the assignments that add a usage to what a session has used of its
// budget.
const AddToSession = `used_tokens = used_tokens + @input::bigint + @output::bigint, used_cost = used_cost + @cost::bigint * 0.000000001`

// AddToChat are the assignments that add a usage to that of a chat.
const AddToChat = `
	input_tokens = input_tokens + @input::bigint, output_tokens = output_tokens + @output::bigint,
	cache_read_tokens = cache_read_tokens + @cache_read::bigint, cache_write_tokens = cache_write_tokens + @cache_write::bigint,
	cost_nano = cost_nano + @cost::bigint, uncosted_tokens = uncosted_tokens + @uncosted::bigint`

// UsedCost is what the session s has cost, in billionths.
const UsedCost = `(s.used_cost * 1000000000)::bigint`

// OwnerCalls counts the model calls of the owner of the session s on this day, those of
// deleted sessions too. An owner has a row for each session of the day, so it counts at the
// first and at every 16th step of a loop only, and is 0 at the others.
func OwnerCalls(step string) string {
	return `(CASE WHEN ` + step + ` % 16 = 1 THEN (SELECT coalesce(sum(o.calls), 0)::bigint FROM (
		SELECT calls FROM session_usage WHERE owner_id = s.owner_id AND day = (now() AT TIME ZONE 'UTC')::date UNION ALL
		SELECT calls FROM deleted_usage WHERE owner_id = s.owner_id AND day = (now() AT TIME ZONE 'UTC')::date) o) ELSE 0 END)`
}

// CountUsage returns the statement that counts a usage for the session whose id and owner the
// query gives, under the lock of the session.
func CountUsage(session string) string {
	return `
		INSERT INTO session_usage AS u (session_id, owner_id, day, model, priced, calls, input_tokens, output_tokens,
		                                cache_read_tokens, cache_write_tokens, cost_nano)
		SELECT f.id, f.owner_id, (now() AT TIME ZONE 'UTC')::date, @used_model::text, @priced::boolean, 1, @input::bigint, @output::bigint,
		       @cache_read::bigint, @cache_write::bigint, @cost::bigint
		FROM   (` + session + `) f WHERE @input::bigint + @output::bigint > 0
		ON     CONFLICT (session_id, day, model, priced) DO UPDATE
		SET    calls = u.calls + 1, input_tokens = u.input_tokens + excluded.input_tokens,
		       output_tokens = u.output_tokens + excluded.output_tokens,
		       cache_read_tokens = u.cache_read_tokens + excluded.cache_read_tokens,
		       cache_write_tokens = u.cache_write_tokens + excluded.cache_write_tokens,
		       cost_nano = u.cost_nano + excluded.cost_nano, last_at = now()`
}

// foldUsage moves the usage of a session that is deleted to the sums of its owner and its
// solution. The row of the session goes after it.
const foldUsage = `
	WITH gone AS (DELETE FROM session_usage WHERE session_id = $1 RETURNING *)
	INSERT INTO deleted_usage AS u (owner_id, day, model, priced, solution_id, calls, input_tokens, output_tokens,
	                                cache_read_tokens, cache_write_tokens, cost_nano)
	SELECT g.owner_id, g.day, g.model, g.priced, coalesce(s.solution_id, ''), g.calls, g.input_tokens, g.output_tokens,
	       g.cache_read_tokens, g.cache_write_tokens, g.cost_nano
	FROM   gone g JOIN sessions s ON s.id = g.session_id ORDER BY g.day, g.model, g.priced
	ON     CONFLICT (owner_id, day, model, priced, solution_id) DO UPDATE
	SET    calls = u.calls + excluded.calls, input_tokens = u.input_tokens + excluded.input_tokens,
	       output_tokens = u.output_tokens + excluded.output_tokens,
	       cache_read_tokens = u.cache_read_tokens + excluded.cache_read_tokens,
	       cache_write_tokens = u.cache_write_tokens + excluded.cache_write_tokens, cost_nano = u.cost_nano + excluded.cost_nano`
