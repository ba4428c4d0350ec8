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

// thisBranch and branchOfLoop are what a query's branch is known by: its $1 is
// the branch's id, or that of the chat of the loop $2.
const (
	thisBranch   = `$1`
	branchOfLoop = `(SELECT coalesce(l.branch_id, c.branch_id) FROM chats c LEFT JOIN loops l ON l.id = $2 WHERE c.id = $1)`
)

// onBranch gives, as e, the entries that branch $1 shows and that fit the range
// (a condition on sequence): its own, and those of its ancestors up to where it
// forked. OFFSET 0 keeps the planner from turning the walk along the branch's
// index into one over all entries.
func onBranch(within string) string {
	return seenFrom(thisBranch) + `
	CROSS JOIN LATERAL (
		SELECT * FROM entries WHERE branch_id = seen.branch_id AND sequence < seen.upto AND ` + within + ` OFFSET 0) e`
}

// lastCompaction gives, as one row of last, the newest compaction of loop $2 that
// the branch shows before sequence $3: where the loop's transcript begins.
func lastCompaction(branch string) string {
	return `
	last AS MATERIALIZED (
		SELECT c.id, c.sequence, c.compaction, (c.compaction->>'kept_from')::bigint AS kept_from, (c.compaction->>'pinned')::bigint AS pinned
		FROM   ` + seenFrom(branch) + `
		CROSS JOIN LATERAL (
			SELECT id, sequence, compaction FROM entries
			WHERE  branch_id = seen.branch_id AND loop_id = $2 AND kind = 'compaction' AND status = 'completed'
			AND    sequence < least(seen.upto, $3) ORDER BY sequence DESC LIMIT 1) c
		ORDER  BY c.sequence DESC LIMIT 1)`
}

// told gives, as e, what loop $2 on the branch is told of before sequence $3: its
// turns from where the last compaction kept them, and the one that this pinned.
// Failed and deprecated turns are left out. It needs last.
func told(branch string) string {
	return `
	(SELECT p.* FROM last CROSS JOIN ` + seenFrom(branch) + `
	 JOIN entries p ON p.branch_id = seen.branch_id AND p.sequence = last.pinned AND p.sequence < seen.upto WHERE NOT p.deprecated
	 UNION ALL
	 SELECT e.* FROM ` + seenFrom(branch) + `
	 CROSS JOIN LATERAL (
		SELECT * FROM entries
		WHERE  branch_id = seen.branch_id AND loop_id = $2 AND sequence >= coalesce((SELECT kept_from FROM last), 0)
		AND    sequence < least(seen.upto, $3) AND kind = 'message' AND status <> 'failed' AND NOT deprecated OFFSET 0) e) e`
}

// What is told, and the calls in it, of branch $1 and loop $2 before sequence $3.
var (
	toldTurns = `
		WITH ` + lastCompaction(thisBranch) + `
		SELECT e.id, e.sequence, e.chat_id, e.role, e.status, e.parts, e.blocks, e.input_tokens, e.model FROM ` + told(thisBranch) + `
		ORDER  BY e.sequence`
	toldCalls = `
		WITH ` + lastCompaction(thisBranch) + `
		SELECT t.entry_id, t.id, t.tool_name, t.display_name, t.arguments, t.status, t.result FROM tool_calls t
		WHERE  t.entry_id IN (SELECT e.id FROM ` + told(thisBranch) + ` WHERE e.role = 'assistant')
		ORDER  BY t.entry_id, t.position`
)

// lastChat is a scalar query for the chat of the newest turn that branch $1 itself
// has of loop $2.
const lastChat = `(SELECT c.chat_id FROM entries c WHERE c.branch_id = $1 AND c.loop_id = $2 ORDER BY c.sequence DESC LIMIT 1)`

// Transcript gives what a loop's model call is told: the summary of what it was
// told earlier, and its turns since, each with its tool calls and their results.
// Its cost grows with what is told and not with the age of the session.
func (db *DB) Transcript(ctx context.Context, q domain.TranscriptQuery) (domain.Transcript, error) {
	var out domain.Transcript
	at := map[string]int{}
	var batch pgx.Batch
	// One snapshot for all: a compaction that comes in between must not take
	// calls from turns that are told.
	batch.Queue(`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`)
	batch.Queue(`
		WITH `+lastCompaction(thisBranch)+`
		SELECT coalesce((SELECT id FROM last), ''), coalesce((SELECT sequence FROM last), -1), coalesce((SELECT compaction->>'summary_full' FROM last), ''),
		       (SELECT recalled FROM chats WHERE id = coalesce(nullif($4, ''), `+lastChat+`))`, q.BranchID, q.LoopID, q.Before, q.ChatID).
		QueryRow(func(row pgx.Row) error {
			return row.Scan(&out.CompactionID, &out.CompactedAt, &out.Summary, &out.Recalled)
		})
	batch.Queue(toldTurns, q.BranchID, q.LoopID, q.Before).
		Query(func(rows pgx.Rows) (err error) {
			out.Turns, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (domain.TranscriptTurn, error) {
				var t domain.TranscriptTurn
				err := row.Scan(&t.ID, &t.Sequence, &t.ChatID, &t.Role, &t.Status, &t.Parts, &t.Blocks, &t.InputTokens, &t.Model)
				at[t.ID] = len(at)
				return t, err
			})
			return err
		})
	batch.Queue(toldCalls, q.BranchID, q.LoopID, q.Before).
		Query(func(rows pgx.Rows) error {
			var entry string
			var call domain.ToolCall
			_, err := pgx.ForEachRow(rows, []any{&entry, &call.ID, &call.ToolName, &call.DisplayName, &call.Arguments, &call.Status, &call.Result}, func() error {
				if i, known := at[entry]; known {
					out.Turns[i].Calls = append(out.Turns[i].Calls, call)
				}
				return nil
			})
			return err
		})
	batch.Queue(`COMMIT`)
	if err := db.Pool.SendBatch(ctx, &batch).Close(); err != nil {
		return domain.Transcript{}, fmt.Errorf("read transcript: %w", err)
	}
	return out, nil
}

// RememberRecall keeps which memories a chat was given, and records them in the
// turn that was given them first. The chat's other model calls find them there.
func (db *DB) RememberRecall(ctx context.Context, chatID string, turn domain.OpenedTurn, recalled []domain.RecalledMemory) error {
	refs := make([]domain.MemoryRef, len(recalled))
	for i, m := range recalled {
		refs[i] = domain.MemoryRef{MemoryID: m.ID, Score: m.Score, Used: true}
	}
	return db.InTx(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE chats SET recalled = $2 WHERE id = $1 AND state = 'running'`, chatID, recalled)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return domain.ErrFenced
		}
		_, err = tx.Exec(ctx, `UPDATE entries SET memory_refs = $3 WHERE id = $1 AND attempt = $2`, turn.EntryID, turn.Attempt, refs)
		return err
	})
}
