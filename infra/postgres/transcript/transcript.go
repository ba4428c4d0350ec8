package transcript

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// lastCompaction gives, as one row of last, the newest compaction of loop $2 that
// the branch shows before sequence $3: where the loop's transcript starts.
func lastCompaction(branch string) string {
	return `
	last AS MATERIALIZED (
		SELECT c.id, c.sequence, c.compaction, (c.compaction->>'kept_from')::bigint AS kept_from,
		    (c.compaction->>'pinned')::bigint AS pinned
		FROM   ` + SeenFrom(branch) + `
		CROSS JOIN LATERAL (
			SELECT id, sequence, compaction FROM entries
			WHERE  branch_id = seen.branch_id AND loop_id = $2 AND kind = 'compaction' AND status = 'completed'
			AND    sequence < least(seen.upto, $3) ORDER BY sequence DESC LIMIT 1) c
		ORDER  BY c.sequence DESC LIMIT 1)`
}

// keptTurns gives, as e, what the prompt of loop $2 on the branch has before sequence $3 and
// from a lower bound on: its turns from where the last compaction kept them, and
// the one that this pinned. Failed and deprecated turns are left out. It needs last.
func keptTurns(branch, from string) string {
	return `
	(SELECT p.* FROM last CROSS JOIN ` + SeenFrom(branch) + `
	 JOIN entries p ON p.branch_id = seen.branch_id AND p.sequence = last.pinned AND p.sequence < seen.upto
	 WHERE NOT ` + IsDeprecated("p", branch) + ` AND p.sequence >= ` + from + `
	 UNION ALL
	 SELECT e.* FROM ` + SeenFrom(branch) + `
	 CROSS JOIN LATERAL (
		SELECT * FROM entries
		WHERE  branch_id = seen.branch_id AND loop_id = $2 AND sequence >= greatest(coalesce((SELECT kept_from FROM last), 0), ` + from + `)
		AND    sequence < least(seen.upto, $3) AND kind = 'message' AND status <> 'failed'
		AND    NOT ` + IsDeprecated("entries", branch) + ` OFFSET 0) e) e`
}

// transcriptRows reads, of branch $1 and loop $2 before sequence $3, what a model
// call gets from sequence $5 on, in one statement and so in one snapshot: a
// compaction that comes in between must not take calls from turns in the prompt.
//
// There is a row for each call and one for each turn without calls; the summary is
// in the first row alone, and a turn's content in that of its first call. Without
// turns there is one row without a turn.
var transcriptRows = `
	WITH ` + lastCompaction(ThisBranch) + `,
	head AS MATERIALIZED (
		SELECT coalesce((SELECT id FROM last), '') AS id, coalesce((SELECT sequence FROM last), -1) AS sequence,
		       (SELECT recalled FROM chats WHERE id = coalesce(nullif($4, ''), ` + lastChat + `)) AS recalled)
	SELECT h.id, h.sequence, h.recalled,
	       CASE WHEN row_number() OVER newest = 1 THEN (SELECT compaction->>'summary_full' FROM last) END,
	       e.id, e.sequence, e.chat_id, e.role, e.status, coalesce(e.prompt_tokens, e.input_tokens), e.model, e.reasoning_field,
	       e.server_members,
	       CASE WHEN coalesce(t.position, 0) = 0 THEN e.parts END, CASE WHEN coalesce(t.position, 0) = 0 THEN e.blocks END,
	       t.id, t.tool_name, t.display_name, t.arguments, t.status, t.result, t.server_call_id, t.server_members, t.images
	FROM   head h LEFT JOIN ` + keptTurns(ThisBranch, `$5`) + ` ON true LEFT JOIN tool_calls t ON t.entry_id = e.id AND e.role = 'assistant'
	WINDOW newest AS (ORDER BY e.sequence, t.position)
	ORDER  BY e.sequence, t.position`

// lastChat is a scalar query for the chat of the newest turn that branch $1 itself
// has of loop $2.
const lastChat = `(SELECT c.chat_id FROM entries c WHERE c.branch_id = $1 AND c.loop_id = $2 ORDER BY c.sequence DESC LIMIT 1)`

// transcriptRow is one row of transcriptRows. What is null in it is absent.
type transcriptRow struct {
	turn domain.TranscriptTurn

	id                                  *domain.TurnID
	chatID                              *domain.ChatID
	role, status, model, reasoningField *string
	sequence, inputTokens               *int64
	summary, members                    *string

	callID, toolName, displayName, arguments, callStatus, result, serverCallID, callMembers *string
	images                                                                                  []domain.CallImage
}

func (r *transcriptRow) scan(row pgx.CollectableRow, out *domain.Transcript) error {
	return row.Scan(&out.CompactionID, &out.CompactedAt, &out.Recalled, &r.summary,
		&r.id, &r.sequence, &r.chatID, &r.role, &r.status, &r.inputTokens, &r.model, &r.reasoningField, &r.members,
		&r.turn.Parts, &r.turn.Blocks,
		&r.callID, &r.toolName, &r.displayName, &r.arguments, &r.callStatus, &r.result, &r.serverCallID, &r.callMembers, &r.images)
}

// addTo appends the row's turn, unless the row before it was of the same turn, and
// its call.
func (r *transcriptRow) addTo(out *domain.Transcript) {
	if r.summary != nil {
		out.Summary = *r.summary
	}

	if r.id == nil {
		return
	}

	if n := len(out.Turns); n == 0 || out.Turns[n-1].ID != *r.id {
		r.turn.ID, r.turn.Sequence, r.turn.ChatID = *r.id, *r.sequence, *r.chatID
		r.turn.Model, r.turn.InputTokens = *r.model, *r.inputTokens
		r.turn.ReasoningField, r.turn.ServerMembers = *r.reasoningField, *r.members
		r.turn.Role, r.turn.Status = domain.Role(*r.role), domain.TurnStatus(*r.status)
		out.Turns = append(out.Turns, r.turn)
	}

	if r.callID == nil {
		return
	}

	turn := &out.Turns[len(out.Turns)-1]
	turn.Calls = append(turn.Calls, domain.ToolCall{
		ID: *r.callID, ToolName: *r.toolName, DisplayName: *r.displayName, Arguments: *r.arguments,
		Status: domain.ToolCallStatus(*r.callStatus), Result: *r.result, ServerCallID: *r.serverCallID,
		ServerMembers: *r.callMembers, Images: r.images,
	})
}

// Transcript returns what a loop's model call is sent: the summary of what it was
// sent earlier, and its turns since, each with its tool calls and their results.
// Its cost grows with what is read and not with the age of the session.
func (db *Base) Transcript(ctx context.Context, q domain.TranscriptQuery) (domain.Transcript, error) {
	var out domain.Transcript

	rows, _ := db.Pool.Query(ctx, transcriptRows, q.BranchID, q.LoopID, q.Before, q.ChatID, q.From)

	_, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var r transcriptRow
		if err := r.scan(row, &out); err != nil {
			return struct{}{}, err
		}

		r.addTo(&out)

		return struct{}{}, nil
	})
	if err != nil {
		return domain.Transcript{}, pg.Fault("read transcript", err)
	}

	return out, nil
}

// RememberRecall keeps which memories a chat was given, and records them in the
// turn that was given them first, as used when the turn's request was made with them
// (conversation.CloseTurn). The chat's other model calls find them there.
// The session's row is locked first, as by all that changes chats and entries: the
// end of the chat locks these two the other way round.
func (db *Base) RememberRecall(ctx context.Context, chatID domain.ChatID, turn domain.OpenedTurn, recalled []domain.RecalledMemory) error {
	refs := make([]domain.MemoryRef, len(recalled))
	for i, m := range recalled {
		refs[i] = domain.MemoryRef{MemoryID: m.ID, Score: m.Score}
	}

	return pg.Fault("keep recalled memories", db.InTx(ctx, func(tx pgx.Tx) error {
		running := false

		var batch pgx.Batch
		batch.Queue(`SELECT 1 FROM sessions WHERE id = $1 FOR UPDATE`, turn.Session.ID)
		batch.Queue(`UPDATE chats SET recalled = $2 WHERE id = $1 AND state = 'running'`, chatID, recalled).
			Exec(func(tag pgconn.CommandTag) error {
				running = tag.RowsAffected() > 0
				return nil
			})
		batch.Queue(`UPDATE entries SET memory_refs = $3 WHERE id = $1 AND attempt = $2`, turn.EntryID, turn.Attempt, refs)

		if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
			return err
		}

		if !running {
			return domain.ErrFenced // nothing of this is kept
		}

		return nil
	}))
}
