package transcript

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/conversation"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
)

// ActiveBranchOf returns a scalar query for the active branch of a session, given by an
// expression for its id.
func ActiveBranchOf(session string) string {
	return `(SELECT active_branch_id FROM sessions WHERE id = ` + session + `)`
}

// TurnColumns returns the columns of the entry e as a turn, as the branch shows it, with its
// tool calls as one JSON array. ScanTurn reads them.
func TurnColumns(branch string) string {
	return `
	e.id, e.session_id, e.sequence, e.chat_id, e.loop_id, e.kind, e.role, e.status, e.blocks, e.model,
	` + sessions.TurnUsageColumns("e") + `, e.duration_ms, e.started_at, e.context_window, e.memory_refs,
	e.parent_fork_tool_call_id, ` + IsDeprecated("e", branch) + `, e.failure_reason,
	e.compaction, e.flushed_seq,
	(SELECT coalesce(json_agg(json_build_object(
			'id', t.id, 'tool_name', t.tool_name, 'display_name', t.display_name, 'arguments', t.arguments,
			'status', t.status, 'result', t.result, 'duration_ms', t.duration_ms, 'phase', t.phase, 'connections', t.connections,
			'images', t.images,
			'pending_question_ref',
			    (SELECT json_strip_nulls(json_build_object('question_id', q.id, 'asked_at', q.asked_at, 'source_loop', q.source_loop,
			                         'expires_at', q.expires_at, 'default_policy', q.default_policy))
			                         FROM questions q WHERE q.tool_call_id = t.id AND q.state = 'open'))
		ORDER BY t.position), '[]'::json)
	 FROM tool_calls t WHERE t.entry_id = e.id)`
}

// ScanTurn reads the TurnColumns of a row.
func ScanTurn(row pgx.CollectableRow) (domain.OpenTurn, error) {
	var (
		t                       domain.OpenTurn
		calls, refs, compaction json.RawMessage
		flushed                 int64
	)

	err := row.Scan(slices.Concat(
		[]any{&t.ID, &t.SessionID, &t.Sequence, &t.ChatID, &t.LoopID, &t.Kind, &t.Role, &t.Status, &t.Blocks, &t.Model},
		sessions.UsageFields(&t.Usage),
		[]any{
			&t.DurationMS,
			&t.StartedAt,
			&t.ContextWindow,
			&refs,
			&t.ParentForkToolCallID,
			&t.Deprecated,
			&t.FailureReason,
			&compaction,
			&flushed,
			&calls,
		})...)
	if err != nil {
		return t, err
	}

	t.TurnID, t.FlushedSeq = t.ID, uint64(flushed)
	if len(refs) > 0 {
		t.MemoryRefs = refs
	}

	if len(compaction) > 0 {
		if err := json.Unmarshal(compaction, &t.Turn); err != nil {
			return t, fmt.Errorf("read compaction of %s: %w", t.ID, err)
		}
	}

	if err := json.Unmarshal(calls, &t.ToolCalls); err != nil {
		return t, fmt.Errorf("read tool calls of %s: %w", t.ID, err)
	}

	t.Blocks = withToolBlocks(t.Blocks, t.ToolCalls)

	return t, nil
}

// withToolBlocks shows each call, and its result once there is one, as blocks
// after the turn's text. They are derived, so that a call is stored once.
func withToolBlocks(blocks []domain.Block, calls []domain.ToolCall) []domain.Block {
	for _, call := range calls {
		id, name, display := call.ID, call.ToolName, call.DisplayName

		blocks = append(blocks, domain.Block{
			Type: domain.BlockToolUse, Content: call.Arguments, ToolCallID: &id, ToolName: &name, DisplayName: &display,
		})
		if call.Status == domain.CallDone || call.Status == domain.CallError || call.Status == domain.CallCancelled {
			blocks = append(blocks, domain.Block{
				Type: domain.BlockToolResult, Content: call.Result, ToolCallID: &id, ToolName: &name, DisplayName: &display,
			})
		}
	}

	return blocks
}

// messageBatch is how many turns a reading of messages holds.
const messageBatch = 50

// Messages yields the turns of the session's active branch in the order of their
// sequence, those after `after` when it is set and at most limit when that is
// above zero. Few of them are read at once, and no connection is held while they
// are yielded: a reader may take its time. The caller has authorised the reader.
func (db *Base) Messages(ctx context.Context, sessionID domain.SessionID, after *int64, limit int, yield func(domain.Turn) error) error {
	branch, err := db.activeBranch(ctx, sessionID)
	if err != nil {
		return err
	}

	from := int64(-1)
	if after != nil {
		from = *after
	}

	if limit <= 0 {
		limit = math.MaxInt
	}

	for limit > 0 {
		want := min(limit, messageBatch)
		rows, _ := db.Pool.Query(ctx, `
			SELECT `+TurnColumns(ThisBranch)+` FROM `+OnBranch("sequence > $2 ORDER BY sequence LIMIT $3")+`
			ORDER  BY e.sequence LIMIT $3`, branch, from, want)

		turns, err := pgx.CollectRows(rows, ScanTurn)
		if err != nil {
			return pg.Fault("read messages", err)
		}

		for _, turn := range turns {
			if err := yield(turn.Turn); err != nil {
				return err
			}

			from = turn.Sequence
		}

		if limit -= want; len(turns) < want {
			_, err := db.activeBranch(ctx, sessionID) // deleted in the meantime, it may have lost its last turns
			return err
		}
	}

	return nil
}

// LastSequence gives the sequence of the last turn of the session's active branch,
// -1 when it has none. The caller has authorised the reader.
func (db *Base) LastSequence(ctx context.Context, sessionID domain.SessionID) (last int64, err error) {
	err = db.Pool.QueryRow(ctx, `
		SELECT b.next_sequence - 1 FROM sessions s JOIN branches b ON b.id = s.active_branch_id
		WHERE  s.id = $1 AND s.deleted_at IS NULL`, sessionID).Scan(&last)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, domain.SessionNotFound(sessionID)
	}

	return last, pg.Fault("read the last sequence", err)
}

// activeBranch gives the branch of a session that is there.
func (db *Base) activeBranch(ctx context.Context, sessionID domain.SessionID) (branch string, err error) {
	err = db.Pool.QueryRow(ctx, `SELECT active_branch_id FROM sessions WHERE id = $1 AND deleted_at IS NULL`, sessionID).Scan(&branch)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", domain.SessionNotFound(sessionID)
	}

	return branch, pg.Fault("read messages", err)
}

// Live returns the database's side of a subscription: open turns with the text
// flushed so far, open questions and the queue, all at one moment.
func (db *Base) Live(ctx context.Context, sessionID domain.SessionID) (domain.LiveState, error) {
	var live domain.LiveState

	err := pgx.BeginTxFunc(ctx, db.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `
			SELECT s.status, `+sessions.ComputedWaiting+`,
			       coalesce(s.active_chat_id, (SELECT c.id FROM chats c WHERE c.session_id = s.id AND c.state = 'parked' LIMIT 1), ''),
			       s.last_end, coalesce(`+openTurnsAfter+`, event_log_reached())
			FROM   sessions s WHERE s.id = $1 AND s.deleted_at IS NULL`, sessionID).
			Scan(&live.Status, &live.WaitingReason, &live.ChatID, &live.LastEnd, &live.TurnsAfter)
		if errors.Is(err, pgx.ErrNoRows) {
			return domain.SessionNotFound(sessionID)
		}

		if err != nil {
			return err
		}

		rows, _ := tx.Query(ctx, `
			SELECT `+TurnColumns(ActiveBranchOf("$1"))+` FROM entries e
			WHERE  e.session_id = $1 AND e.status IN ('streaming', 'paused') ORDER BY e.sequence`, sessionID)
		if live.OpenTurns, err = pgx.CollectRows(rows, ScanTurn); err != nil {
			return err
		}

		if live.Questions, err = conversation.OpenQuestionsOf(ctx, tx, sessionID); err != nil {
			return err
		}

		live.Queue, err = queue(ctx, tx, sessionID)

		return err
	})

	return live, pg.Fault("read session state", err)
}

// openTurnsAfter is a scalar query for a position of the event log before the turn:start of
// each turn of the session s that is open or whose turn:end is not published; NULL: there is
// none. The operator -> leaves the other texts of the data unread: they may have U+0000.
const openTurnsAfter = `(
	SELECT min(t.starts_after) FROM (
		SELECT coalesce(e.starts_after, 0) AS starts_after FROM entries e
		WHERE  e.session_id = s.id AND e.status IN ('streaming', 'paused')
		UNION ALL
		SELECT coalesce(e.starts_after, 0) FROM outbox o JOIN entries e ON e.id = (o.data -> 'turn_id') #>> '{}'
		WHERE  o.session_id = s.id AND o.seq IS NULL AND o.name = '` + domain.EventTurnEnd + `') t)`

// TurnsAfter returns a position of the event log before the turn:start of each of the turns,
// 0 when it is unknown for one of them.
func (db *Base) TurnsAfter(ctx context.Context, sessionID domain.SessionID, turns []domain.TurnID) (position uint64, err error) {
	err = db.Pool.QueryRow(ctx, `
		SELECT CASE WHEN count(*) = cardinality($2::text[]) THEN coalesce(min(coalesce(starts_after, 0)), 0) ELSE 0 END
		FROM   entries WHERE session_id = $1 AND id = ANY($2::text[])`, sessionID, turns).Scan(&position)

	return position, pg.Fault("read the positions of turns", err)
}

func queue(ctx context.Context, tx pgx.Tx, sessionID domain.SessionID) ([]domain.QueuedMessage, error) {
	rows, _ := tx.Query(ctx, `
		SELECT chat_id, turn_id, parts FROM inbox
		WHERE  session_id = $1 AND state = 'queued' AND kind = 'message' ORDER BY front DESC, id`, sessionID)
	position := 0

	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (domain.QueuedMessage, error) {
		position++
		m := domain.QueuedMessage{Position: position}

		var parts []domain.ContentPart

		err := row.Scan(&m.ChatID, &m.TurnID, &parts)
		m.Preview = sessions.Title(parts)

		return m, err
	})
}

// OpenTurnsOfChat returns the chat's turns that still stream, to restore their
// text before they are closed for a worker that died.
func (db *Base) OpenTurnsOfChat(ctx context.Context, chatID domain.ChatID) ([]domain.OpenTurn, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT `+TurnColumns("e.branch_id")+` FROM entries e WHERE e.chat_id = $1 AND e.status = 'streaming' ORDER BY e.sequence`, chatID)
	turns, err := pgx.CollectRows(rows, ScanTurn)

	return turns, pg.Fault("read open turns", err)
}
