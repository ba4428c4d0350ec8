package transcript

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/conversation"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
)

// Weigh returns, in one round and before the turn of a model call is opened, how
// large its prompt is about to be: what the model server has counted of the
// loop's last prompt since its last compaction, and the size of what was said
// since. Messages that wait to join the chat count.
func (db *Base) Weigh(ctx context.Context, key domain.TurnKey) (domain.ContextWeight, error) {
	var w domain.ContextWeight

	fields := append(sessions.WorkFields(&w.Session), conversation.LoopFields(&w.Loop)...)
	fields = append(
		fields,
		&w.Chat.ID,
		&w.Chat.Mode,
		&w.Chat.Headless,
		&w.Chat.Model,
		&w.Running,
		&w.Opened,
		&w.UsedTokens,
		&w.UsedCost,
		&w.OwnerCalls,
		&w.Reported,
		&w.Bytes,
		&w.Images,
	)

	err := db.Pool.QueryRow(ctx, `
		WITH `+lastCompaction(branchOfLoop)+`,
		counted AS MATERIALIZED (
			SELECT n.sequence, n.tokens FROM `+SeenFrom(branchOfLoop)+`
			CROSS JOIN LATERAL (
				SELECT sequence, coalesce(prompt_tokens, input_tokens) AS tokens FROM entries
				WHERE  branch_id = seen.branch_id AND loop_id = $2 AND sequence > coalesce((SELECT sequence FROM last), -1)
				AND    sequence < least(seen.upto, $3) AND kind = 'message' AND status <> 'failed'
				AND    coalesce(prompt_tokens, input_tokens) > 0
				AND    NOT `+IsDeprecated("entries", branchOfLoop)+`
				ORDER  BY sequence DESC LIMIT 1) n
			ORDER  BY n.sequence DESC LIMIT 1),
		since AS MATERIALIZED (
			SELECT e.id, e.role, e.blocks, e.parts, e.server_members
			FROM   `+keptTurns(branchOfLoop, `coalesce((SELECT sequence FROM counted), 0)`)+`),
		waiting AS (
			SELECT i.parts FROM chats h JOIN inbox i ON i.session_id = h.session_id AND i.chat_id = h.id
			WHERE  h.id = $1 AND i.kind = 'steer' AND i.state = 'queued')
		SELECT `+sessions.WorkColumns+`, `+conversation.LoopColumns+`,
		       c.id, c.mode, c.headless OR l.task_id IS NOT NULL, coalesce(l.model, c.model), `+conversation.Alive+`,
		       EXISTS (SELECT 1 FROM entries o WHERE o.chat_id = c.id AND o.loop_id = $2 AND o.step = $4 AND o.status <> 'failed'
		           AND o.role = 'assistant'),
		       s.used_tokens, `+sessions.UsedCost+`, `+sessions.OwnerCalls("$4")+`,
		       coalesce((SELECT tokens FROM counted), 0),
		       coalesce((SELECT sum(CASE WHEN role = 'user' THEN octet_length(parts::text)
		               ELSE octet_length(blocks::text) + octet_length(server_members) END)
		           FROM since), 0)
		     + coalesce((SELECT sum(octet_length(t.result) + octet_length(t.arguments) + octet_length(t.server_members) + 60)
		                 FROM   tool_calls t
		                 WHERE t.entry_id IN (SELECT id FROM since WHERE role = 'assistant')), 0)
		     + coalesce((SELECT sum(octet_length(parts::text)) FROM waiting), 0)
		     + CASE WHEN EXISTS (SELECT 1 FROM counted) THEN 0
		         ELSE coalesce(octet_length((SELECT compaction->>'summary_full' FROM last)), 0) END,
		       coalesce((SELECT sum(jsonb_array_length(jsonb_path_query_array(parts, '$[*].image_url'))) FROM since WHERE role = 'user'), 0)
		     + coalesce((SELECT sum(jsonb_array_length(t.images)) FROM tool_calls t
		                 WHERE t.images IS NOT NULL AND t.entry_id IN (SELECT id FROM since WHERE role = 'assistant')), 0)
		FROM   chats c JOIN sessions s ON s.id = c.session_id LEFT JOIN loops l ON l.id = $2
		WHERE  c.id = $1 AND s.deleted_at IS NULL`,
		key.ChatID, key.LoopID, int64(1)<<62, key.Step).Scan(fields...)
	if errors.Is(err, pgx.ErrNoRows) {
		return domain.ContextWeight{}, nil
	}

	return w, pg.Fault("weigh context", err)
}

// CountCompactions counts the summaries that a branch shows, of all its loops.
func (db *Base) CountCompactions(ctx context.Context, branchID domain.BranchID) (n int, err error) {
	err = db.Pool.QueryRow(ctx, `
		SELECT count(*) FROM `+SeenFrom(ThisBranch)+`
		CROSS JOIN LATERAL (
			SELECT 1 FROM entries
			WHERE  branch_id = seen.branch_id AND kind = 'compaction' AND status = 'completed' AND sequence < seen.upto OFFSET 0) e`,
		branchID).Scan(&n)

	return n, pg.Fault("count compactions", err)
}

// TokenRatios gives what model servers have reported of their tokens.
func (db *Base) TokenRatios(ctx context.Context) (map[string]float64, error) {
	rows, _ := db.Pool.Query(ctx, `SELECT model, ratio FROM token_ratios ORDER BY updated_at DESC LIMIT 1000`)
	ratios := map[string]float64{}

	var (
		model string
		ratio float64
	)

	_, err := pgx.ForEachRow(rows, []any{&model, &ratio}, func() error {
		ratios[model] = ratio
		return nil
	})

	return ratios, pg.Fault("read token ratios", err)
}

// KeepTokenRatio records what a model server has reported of its tokens.
func (db *Base) KeepTokenRatio(ctx context.Context, model string, ratio float64) error {
	_, err := db.Pool.Exec(ctx, `
		INSERT INTO token_ratios (model, ratio) VALUES ($1, $2)
		ON CONFLICT (model) DO UPDATE SET ratio = excluded.ratio, updated_at = now()`, model, ratio)

	return pg.Fault("keep token ratio", err)
}
