package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
)

// Weigh tells, in one round and before the turn of a model call is opened, how
// large its prompt is about to be: what the model server has counted of the
// loop's last prompt since its last compaction, and the size of what was said
// since. Messages that wait to join the chat count.
func (db *DB) Weigh(ctx context.Context, key domain.TurnKey) (domain.ContextWeight, error) {
	var w domain.ContextWeight
	fields := append(workFields(&w.Session), loopFields(&w.Loop)...)
	fields = append(fields, &w.Chat.ID, &w.Chat.Mode, &w.Chat.Headless, &w.Chat.Model, &w.Running, &w.Opened, &w.UsedTokens, &w.UsedCost, &w.Reported, &w.Bytes, &w.Images)
	err := db.Pool.QueryRow(ctx, `
		WITH `+lastCompaction(branchOfLoop)+`,
		said AS MATERIALIZED (
			SELECT e.id, e.sequence, e.role, e.input_tokens, e.blocks, e.parts FROM `+told(branchOfLoop)+`),
		counted AS MATERIALIZED (
			SELECT sequence, input_tokens FROM said
			WHERE  input_tokens > 0 AND sequence > coalesce((SELECT sequence FROM last), -1) ORDER BY sequence DESC LIMIT 1),
		since AS MATERIALIZED (
			SELECT * FROM said WHERE sequence >= coalesce((SELECT sequence FROM counted), 0)),
		waiting AS (
			SELECT parts FROM inbox WHERE chat_id = $1 AND kind = 'steer' AND state = 'queued')
		SELECT `+workColumns+`, `+loopColumns+`,
		       c.id, c.mode, c.headless OR l.task_id IS NOT NULL, coalesce(l.model, c.model), `+alive+`,
		       EXISTS (SELECT 1 FROM entries o WHERE o.chat_id = c.id AND o.loop_id = $2 AND o.step = $4 AND o.status <> 'failed' AND o.role = 'assistant'),
		       s.used_tokens, s.used_cost,
		       coalesce((SELECT input_tokens FROM counted), 0),
		       coalesce((SELECT sum(CASE WHEN role = 'user' THEN octet_length(parts::text) ELSE octet_length(blocks::text) END) FROM since), 0)
		     + coalesce((SELECT sum(octet_length(t.result) + octet_length(t.arguments) + 60) FROM tool_calls t
		                 WHERE t.entry_id IN (SELECT id FROM since WHERE role = 'assistant')), 0)
		     + coalesce((SELECT sum(octet_length(parts::text)) FROM waiting), 0)
		     + CASE WHEN EXISTS (SELECT 1 FROM counted) THEN 0 ELSE coalesce(octet_length((SELECT compaction->>'summary_full' FROM last)), 0) END,
		       coalesce((SELECT sum(jsonb_array_length(jsonb_path_query_array(parts, '$[*].image_url'))) FROM since WHERE role = 'user'), 0)
		FROM   chats c JOIN sessions s ON s.id = c.session_id LEFT JOIN loops l ON l.id = $2
		WHERE  c.id = $1 AND s.deleted_at IS NULL`,
		key.ChatID, key.LoopID, int64(1)<<62, key.Step).Scan(fields...)
	if errors.Is(err, pgx.ErrNoRows) {
		return domain.ContextWeight{}, nil
	}
	return w, fault("weigh context", err)
}

// CountCompactions counts the summaries that a branch shows, of all its loops.
func (db *DB) CountCompactions(ctx context.Context, branchID string) (n int, err error) {
	err = db.Pool.QueryRow(ctx, `
		SELECT count(*) FROM `+seenFrom(thisBranch)+`
		CROSS JOIN LATERAL (
			SELECT 1 FROM entries
			WHERE  branch_id = seen.branch_id AND kind = 'compaction' AND status = 'completed' AND sequence < seen.upto OFFSET 0) e`,
		branchID).Scan(&n)
	return n, fault("count compactions", err)
}

// TokenRatios gives what model servers have reported of their tokens.
func (db *DB) TokenRatios(ctx context.Context) (map[string]float64, error) {
	rows, _ := db.Pool.Query(ctx, `SELECT model, ratio FROM token_ratios ORDER BY updated_at DESC LIMIT 1000`)
	ratios := map[string]float64{}
	var model string
	var ratio float64
	_, err := pgx.ForEachRow(rows, []any{&model, &ratio}, func() error {
		ratios[model] = ratio
		return nil
	})
	return ratios, fault("read token ratios", err)
}

// KeepTokenRatio records what a model server has reported of its tokens.
func (db *DB) KeepTokenRatio(ctx context.Context, model string, ratio float64) error {
	_, err := db.Pool.Exec(ctx, `
		INSERT INTO token_ratios (model, ratio) VALUES ($1, $2)
		ON CONFLICT (model) DO UPDATE SET ratio = excluded.ratio, updated_at = now()`, model, ratio)
	return fault("keep token ratio", err)
}
