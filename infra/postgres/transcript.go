package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
)

// sessionByID reads a session for work that was authorised when it was sent.
func (db *DB) sessionByID(ctx context.Context, id string) (domain.Session, error) {
	rows, _ := db.Pool.Query(ctx, `SELECT `+sessionColumns+` FROM sessions s WHERE s.id = $1 AND s.deleted_at IS NULL`, id)
	session, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[domain.Session])
	if errors.Is(err, pgx.ErrNoRows) {
		return session, domain.SessionNotFound(id)
	}
	return session, fault("read session", err)
}

// onBranch gives, as e, the entries that branch $1 shows and that fit the range
// (a condition on sequence): its own, and those of its ancestors up to where it
// forked. OFFSET 0 keeps the planner from turning the walk along the branch's
// index into one over all entries.
func onBranch(within string) string {
	return `
	(SELECT $1::text AS branch_id, 9223372036854775807::bigint AS upto
	 UNION ALL
	 SELECT l.branch_id, l.upto FROM branches b, jsonb_to_recordset(b.lineage) AS l (branch_id text, upto bigint) WHERE b.id = $1) seen
	CROSS JOIN LATERAL (
		SELECT * FROM entries WHERE branch_id = seen.branch_id AND sequence < seen.upto AND ` + within + ` OFFSET 0) e`
}

// Transcript gives what a loop's model call is told: the turns of its branch
// before the given sequence, without failed and deprecated ones, each with its
// tool calls and their results.
func (db *DB) Transcript(ctx context.Context, branchID, loopID string, before int64) ([]domain.TranscriptTurn, error) {
	told := onBranch("sequence < $3") + `
		WHERE  e.loop_id = $2 AND e.kind = 'message' AND e.status <> 'failed' AND NOT e.deprecated`
	var turns []domain.TranscriptTurn
	at := map[string]int{}
	var batch pgx.Batch
	batch.Queue(`
		SELECT e.id, e.chat_id, e.role, e.status, e.parts, e.blocks FROM `+told+` ORDER BY e.sequence`, branchID, loopID, before).
		Query(func(rows pgx.Rows) (err error) {
			turns, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (domain.TranscriptTurn, error) {
				var t domain.TranscriptTurn
				err := row.Scan(&t.ID, &t.ChatID, &t.Role, &t.Status, &t.Parts, &t.Blocks)
				at[t.ID] = len(at)
				return t, err
			})
			return err
		})
	batch.Queue(`
		SELECT t.entry_id, t.id, t.tool_name, t.arguments, t.status, t.result FROM tool_calls t
		WHERE  t.entry_id IN (SELECT e.id FROM `+told+` AND e.role = 'assistant')
		ORDER  BY t.entry_id, t.position`, branchID, loopID, before).
		Query(func(rows pgx.Rows) error {
			var entry string
			var call domain.ToolCall
			_, err := pgx.ForEachRow(rows, []any{&entry, &call.ID, &call.ToolName, &call.Arguments, &call.Status, &call.Result}, func() error {
				if i, known := at[entry]; known { // else the turn ended between the two reads
					turns[i].Calls = append(turns[i].Calls, call)
				}
				return nil
			})
			return err
		})
	if err := db.Pool.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("read transcript: %w", err)
	}
	return turns, nil
}
