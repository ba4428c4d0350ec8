package recordings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/transfer"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/transcript"
)

// entryPage is how many entries are read at a time: a history of any length is
// never held whole.
const entryPage = 200

// entryColumns gives an EntryRecord of the entry e as the branch $1 shows it, its
// calls and their questions as one JSON array.
var entryColumns = `
	e.id, e.branch_id, e.sequence, e.parent_id, e.chat_id, e.loop_id, e.parent_fork_tool_call_id, e.kind, e.role, e.status, e.step,
	e.blocks, e.parts, e.model, e.input_tokens, e.output_tokens, e.cache_read_tokens, e.cache_write_tokens, e.cost_nano,
	e.duration_ms, e.context_window,
	` + transcript.IsDeprecated("e", transcript.ThisBranch) + `, e.deprecated_on, e.failure_reason,
	e.compaction, e.started_at, e.ended_at, e.reasoning_field, e.server_members,
	(SELECT coalesce(json_agg(json_build_object(
			'id', t.id, 'tool_name', t.tool_name, 'display_name', t.display_name, 'arguments', t.arguments, 'status', t.status,
			'phase', t.phase, 'result', t.result, 'started_at', t.started_at, 'duration_ms', t.duration_ms, 'created_at', t.created_at,
			'server_call_id', t.server_call_id, 'server_members', t.server_members, 'connections', t.connections, 'images', t.images,
			'question', (SELECT json_build_object('id', q.id, 'questions', q.questions, 'source_loop', q.source_loop, 'state', q.state,
			    'answer', q.answer,
			                                      'asked_at', q.asked_at, 'resolved_at', q.resolved_at)
			             FROM questions q WHERE q.tool_call_id = t.id))
		ORDER BY t.position), '[]'::json)
	 FROM tool_calls t WHERE t.entry_id = e.id)`

func scanEntry(row pgx.CollectableRow) (transfer.EntryRecord, error) {
	var (
		e     transfer.EntryRecord
		calls json.RawMessage
	)

	err := row.Scan(
		&e.ID,
		&e.BranchID,
		&e.Sequence,
		&e.ParentID,
		&e.ChatID,
		&e.LoopID,
		&e.ParentForkToolCallID,
		&e.Kind,
		&e.Role,
		&e.Status,
		&e.Step,
		&e.Blocks,
		&e.Parts,
		&e.Model,
		&e.InputTokens,
		&e.OutputTokens,
		&e.CacheRead,
		&e.CacheWrite,
		&e.Cost,
		&e.DurationMS,
		&e.ContextWindow,
		&e.Deprecated,
		&e.DeprecatedOn,
		&e.FailureReason,
		&e.Compaction,
		&e.StartedAt,
		&e.EndedAt,
		&e.ReasoningField,
		&e.ServerMembers,
		&calls,
	)
	if err != nil {
		return e, err
	}

	if err := json.Unmarshal(calls, &e.Calls); err != nil {
		return e, fmt.Errorf("read tool calls of %s: %w", e.ID, err)
	}

	return e, nil
}

// SessionRecords reads a session's conversation: the frame first, as it is at one moment,
// then the entries that the frame's branches had then, those of the active branch in their
// order, or those of all branches by branch and order. Entries are read page by page, each
// page in its own statement, so that a slow reader holds neither a connection nor a
// snapshot. The caller is authorised.
func (s *Store) SessionRecords(ctx context.Context, sessionID domain.SessionID, activeOnly bool,
	frame func(transfer.SessionTree) error, entry func(transfer.EntryRecord) error,
) error {
	var tree transfer.SessionTree

	err := pgx.BeginTxFunc(
		ctx,
		s.db.Pool,
		pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
		func(tx pgx.Tx) (err error) {
			tree, err = sessionTree(ctx, tx, sessionID)
			return err
		},
	)
	if err == nil {
		err = frame(tree)
	}

	for _, branch := range tree.Branches {
		from := `(SELECT * FROM entries WHERE branch_id = $1 AND sequence > $2 OFFSET 0) e`
		if activeOnly {
			from = transcript.OnBranch("sequence > $2")
		}

		if err == nil && (!activeOnly || branch.ID == tree.ActiveBranchID) {
			err = s.eachEntry(ctx, from, branch, entry)
		}
	}

	if err == nil {
		err = s.stillThere(ctx, sessionID)
	}

	return pg.Fault("read session", err)
}

// stillThere returns an error when the session was deleted: its entries may have been
// deleted while they were read.
func (s *Store) stillThere(ctx context.Context, sessionID domain.SessionID) error {
	var exists bool

	err := s.db.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM sessions WHERE id = $1 AND deleted_at IS NULL)`, sessionID).Scan(&exists)
	if err == nil && !exists {
		err = domain.SessionNotFound(sessionID)
	}

	return err
}

func sessionTree(ctx context.Context, tx pgx.Tx, sessionID domain.SessionID) (tree transfer.SessionTree, err error) {
	err = tx.QueryRow(ctx, `SELECT active_branch_id FROM sessions WHERE id = $1
		AND deleted_at IS NULL`, sessionID).Scan(&tree.ActiveBranchID)
	if errors.Is(err, pgx.ErrNoRows) {
		return tree, domain.SessionNotFound(sessionID)
	}

	if err != nil {
		return tree, err
	}

	rows, _ := tx.Query(ctx, `
		SELECT id, parent_branch_id, fork_sequence, next_sequence, lineage, reason, forked_from_id, name, created_at
		FROM   branches WHERE session_id = $1 ORDER BY created_at, id`, sessionID)
	if tree.Branches, err = pgx.CollectRows(rows, pgx.RowToStructByName[transfer.BranchRecord]); err != nil {
		return tree, err
	}

	rows, _ = tx.Query(ctx, `
		SELECT id, branch_id, trigger, mode, headless, output_schema, model, state, steps, input_tokens, output_tokens, cache_read_tokens,
		       cache_write_tokens, cost_nano, uncosted_tokens, round,
		       started_at, finish_reason, error_code, error_message, ended_at, created_at
		FROM   chats WHERE session_id = $1 ORDER BY id`, sessionID)
	if tree.Chats, err = pgx.CollectRows(rows, pgx.RowToStructByName[transfer.ChatRecord]); err != nil {
		return tree, err
	}

	rows, _ = tx.Query(ctx, `
		SELECT id, branch_id, turn_id, chat_id, kind, sequence, label, snapshot_id, changed, added, deleted, bytes, complete, created_at
		FROM   checkpoints WHERE session_id = $1 ORDER BY id`, sessionID)
	tree.Checkpoints, err = pgx.CollectRows(rows, pgx.RowToStructByName[transfer.CheckpointRecord])

	return tree, err
}

// eachEntry yields the entries of a branch below its next sequence, page by page; $1 is the
// branch, $2 the sequence before the page.
func (s *Store) eachEntry(ctx context.Context, from string, branch transfer.BranchRecord, yield func(transfer.EntryRecord) error) error {
	statement := `SELECT ` + entryColumns + ` FROM ` + from + ` WHERE e.sequence < $4 ORDER BY e.sequence LIMIT $3`

	for after := int64(-1); ; {
		rows, _ := s.db.Pool.Query(ctx, statement, branch.ID, after, entryPage, branch.NextSequence)

		page, err := pgx.CollectRows(rows, scanEntry)
		if err != nil {
			return err
		}

		for _, e := range page {
			after = e.Sequence
			if err := yield(e); err != nil {
				return err
			}
		}

		if len(page) < entryPage {
			return nil
		}
	}
}

// NullParts returns parts as the value of a column: NULL, not an empty list, when there are
// none.
func NullParts(parts []domain.ContentPart) any {
	if parts == nil {
		return nil
	}

	return parts
}
