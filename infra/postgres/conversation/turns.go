package conversation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"everloop/domain"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
)

// NextSequence takes the number of the next entry of a branch. The caller holds the
// session's lock, so numbers are dense and in the order of the commits.
func NextSequence(ctx context.Context, tx pgx.Tx, branchID domain.BranchID) (n int64, err error) {
	err = tx.QueryRow(ctx, `
		UPDATE branches SET next_sequence = next_sequence + 1 WHERE id = $1 RETURNING next_sequence - 1`, branchID).Scan(&n)

	return n, err
}

// previousEntry is a scalar query for the last main-loop entry of branch $1, or
// the one that it was forked from: the parent of the next one.
const previousEntry = `coalesce(
	(SELECT p.id FROM entries p WHERE p.branch_id = $1 AND p.loop_id = 'root' ORDER BY p.sequence DESC LIMIT 1),
	(SELECT b.forked_from_id FROM branches b WHERE b.id = $1))`

// previousOfLoop returns a scalar query for the parent of the next entry of a loop on
// a branch: for a sub-agent its own last entry, else the turn that asked for it.
// Both are names of parameters.
func previousOfLoop(loopID, loop, branch string) string {
	if loopID == domain.RootLoop {
		return strings.ReplaceAll(previousEntry, "$1", branch)
	}

	return `coalesce(
		(SELECT p.id FROM entries p WHERE p.chat_id = (SELECT chat_id FROM loops WHERE id = ` + loop + `) AND p.loop_id = ` + loop + `
		 ORDER BY p.sequence DESC LIMIT 1),
		(SELECT t.entry_id FROM tool_calls t WHERE t.id = ` + loop + `))`
}

// newTurn is a user turn to be written.
type newTurn struct {
	sessionID domain.SessionID
	branchID  domain.BranchID
	chatID    domain.ChatID
	loopID    string
	turnID    domain.TurnID
	parts     []domain.ContentPart
}

// addUserTurn writes what a client said as a finished turn, with the checkpoint
// before it, and emits both.
func addUserTurn(
	ctx context.Context,
	tx *pg.Tx,
	sessionID domain.SessionID,
	branchID domain.BranchID,
	chatID domain.ChatID,
	turnID domain.TurnID,
	parts []domain.ContentPart,
) error {
	return addTurn(ctx, tx, newTurn{
		sessionID: sessionID, branchID: branchID, chatID: chatID, loopID: domain.RootLoop, turnID: turnID, parts: parts,
	})
}

// addTurn writes what was said to a loop as a finished turn and emits it. In
// the main loop a checkpoint goes before it.
func addTurn(ctx context.Context, tx *pg.Tx, t newTurn) error {
	sequence, err := NextSequence(ctx, tx, t.branchID)
	if err != nil {
		return err
	}

	start := domain.TurnStarted{
		TurnID: t.turnID, Sequence: sequence, Role: domain.RoleUser, Status: domain.TurnCompleted, LoopID: t.loopID,
		Kind: domain.KindMessage, ParentForkToolCallID: ForkOf(t.loopID), Blocks: userBlocks(t.sessionID, t.parts),
	}
	before := domain.CheckpointCreated{
		ID:       domain.CheckpointID(domain.NewID()),
		TurnID:   t.turnID,
		BranchID: t.branchID,
		Sequence: sequence,
		Kind:     domain.CheckpointUserTurn,
		Label:    sessions.Title(t.parts),
	}

	with := ""
	if t.loopID == domain.RootLoop {
		with = `WITH before AS (` + InsertCheckpoint + `)`
	}

	err = tx.QueryRow(ctx, with+`
		INSERT INTO entries (id, session_id, branch_id, sequence, parent_id, chat_id, role, status, blocks, parts, loop_id,
		                     parent_fork_tool_call_id, ended_at)
		VALUES (@turn, @session, @branch, @sequence, `+previousOfLoop(t.loopID, "@loop", "@branch")+`, @chat, 'user', 'completed',
		        @blocks, @parts, @loop, @fork, now())
		RETURNING started_at`,
		pgx.NamedArgs{
			"turn": t.turnID, "session": t.sessionID, "branch": t.branchID, "sequence": sequence, "chat": t.chatID,
			"blocks": start.Blocks, "parts": t.parts, "loop": t.loopID, "fork": ForkOf(t.loopID),
			"checkpoint": before.ID, "kind": before.Kind, "label": before.Label,
		}).Scan(&start.StartedAt)
	if err != nil {
		return fmt.Errorf("write user turn: %w", err)
	}

	if err := tx.Emit(t.sessionID, t.chatID, domain.EventTurnStart, start); err != nil {
		return err
	}

	err = tx.Emit(t.sessionID, t.chatID, domain.EventTurnEnd, domain.TurnEnded{TurnID: t.turnID, Status: domain.TurnCompleted})
	if err != nil || with == "" {
		return err
	}

	return tx.Emit(t.sessionID, t.chatID, domain.EventCheckpoint, before)
}

// userBlocks shows a message's parts: an image or a recording by the path that serves it.
func userBlocks(sessionID domain.SessionID, parts []domain.ContentPart) []domain.Block {
	blocks := make([]domain.Block, 0, len(parts))
	for _, p := range parts {
		path := domain.AttachmentPath(sessionID, p.Attachment())

		switch {
		case p.ImageURL != nil:
			blocks = append(blocks, domain.Block{Type: domain.BlockImage, Content: path})
		case p.AudioURL != nil:
			blocks = append(blocks, domain.Block{Type: domain.BlockAudio, Content: path})
		default:
			blocks = append(blocks, domain.Block{Type: domain.BlockText, Content: p.Text})
		}
	}

	return blocks
}

// OpenTurn prepares one model call of a loop: messages steered into the chat
// join first, then the turn is opened, or found again, or taken over from a
// worker that died. The attempt in the result fences every later write. The
// turn names the chat's model, or the given one when the chat names none.
//
// A sub-agent starts with its first turn, unless maxConcurrent of its chat work already:
// then it is queued.
//
// Opener is a nonce of this opening, or empty. A streaming turn that bears it was
// opened by an earlier try whose answer was lost: nothing was streamed into it.
func (s *Store) OpenTurn(
	ctx context.Context, key domain.TurnKey, model string, maxConcurrent int, opener string,
) (turn domain.OpenedTurn, state domain.TurnState, err error) {
	return s.OpenTurnIf(ctx, key, model, maxConcurrent, opener, nil)
}

// OpenTurnIf is OpenTurn, but a turn that is not there yet is refused unless admit
// lets it be opened. Admit is called under the session's lock: it must not wait.
func (s *Store) OpenTurnIf(
	ctx context.Context, key domain.TurnKey, model string, maxConcurrent int, opener string, admit func(domain.NextTurn) bool,
) (turn domain.OpenedTurn, state domain.TurnState, err error) {
	err = s.Update(ctx, func(tx *pg.Tx) error {
		turn = domain.OpenedTurn{}

		found, err := findTurn(ctx, tx, key, &turn)
		switch {
		case err != nil:
			return err
		case found.closed, !found.alive && !found.waitsForInput(key, turn):
			state = domain.TurnStopped
			return nil
		case turn.EntryID == "" && found.left != "":
			turn.EntryID, state = domain.TurnID(found.left), domain.TurnBehind
			return nil
		case turn.Faults.RetryIn > retryTolerance &&
			(turn.EntryID == "" || found.status == domain.TurnStreaming && turn.Attempt == released):
			state = domain.TurnDelayed
			return nil
		case turn.EntryID == "" && admit != nil && !admit(found.next(turn)):
			state = domain.TurnRefused
			return nil
		case turn.EntryID == "" && key.LoopID != domain.RootLoop:
			admitted, err := admitLoop(ctx, tx, key, maxConcurrent, &turn)
			if err != nil || !admitted {
				state = domain.TurnQueued
				return err
			}

			state = domain.TurnOpened

			return openTurn(ctx, tx, key, model, found, opener, &turn)
		case turn.EntryID == "":
			state = domain.TurnOpened
			return openTurn(ctx, tx, key, model, found, opener, &turn)
		case found.status != domain.TurnStreaming:
			turn.Status, state = found.status, domain.TurnFinished
			return nil
		case turn.Attempt == released:
			state = domain.TurnOpened

			if err := callResumes(ctx, tx, key, found); err != nil {
				return err
			}

			return takeTurn(ctx, tx, opener, &turn)
		case opener != "" && found.opener == opener:
			state = domain.TurnOpened
			return nil
		default:
			state = domain.TurnOrphaned
			return takeTurn(ctx, tx, "", &turn) // it may hold text: no try may stream into it
		}
	})

	return turn, state, pg.Fault("open turn", err)
}

// foundTurn is what a model call finds before it opens its turn.
type foundTurn struct {
	alive      bool // its chat runs and was not stopped; in the background, its task
	closed     bool // the account of the session's owner is closed
	parked     bool // its chat waits for input and was not stopped
	status     domain.TurnStatus
	steered    int64  // bytes of the messages that wait to join
	tasksEnded bool   // background tasks have ended without a note for the model
	opener     string // the nonce that it was opened with
	left       string // the turn before it, while calls or questions of that are open
	waiting    domain.WaitingReason
	sequence   int64 // of the branch's next entry
	usedTokens int64 // by the session
	usedCost   domain.Cost
	ownerCalls int64
}

func (f foundTurn) next(turn domain.OpenedTurn) domain.NextTurn {
	return domain.NextTurn{
		Session: turn.Session, Chat: turn.Chat, BranchID: turn.BranchID, Newest: turn.Newest,
		Waiting: f.steered, UsedTokens: f.usedTokens, UsedCost: f.usedCost, OwnerCalls: f.ownerCalls,
	}
}

// waitsForInput reports that the turn before has open questions and that its chat was
// parked for them: by a run that was lost, after this one started.
func (f foundTurn) waitsForInput(key domain.TurnKey, turn domain.OpenedTurn) bool {
	return f.parked && key.LoopID == domain.RootLoop && turn.EntryID == "" && f.left != ""
}

// findTurn takes the session's lock and reads, under it and in the same round,
// the session, the chat and the turn that an earlier attempt may have opened.
func findTurn(ctx context.Context, tx pgx.Tx, key domain.TurnKey, turn *domain.OpenedTurn) (found foundTurn, err error) {
	var batch pgx.Batch
	batch.Queue(`
		SELECT s.used_tokens, `+sessions.UsedCost+`, `+sessions.OwnerCalls("$2::int")+`, u.closed, `+sessions.WorkColumns+`
		FROM   sessions s JOIN users u ON u.id = s.owner_id
		WHERE  s.id = $1 AND s.deleted_at IS NULL FOR UPDATE OF s`, key.SessionID, key.Step).
		QueryRow(func(row pgx.Row) error {
			used := []any{&found.usedTokens, &found.usedCost, &found.ownerCalls, &found.closed}

			err := row.Scan(append(used, sessions.WorkFields(&turn.Session)...)...)
			if errors.Is(err, pgx.ErrNoRows) {
				return domain.SessionNotFound(key.SessionID)
			}

			return err
		})
	batch.Queue(`
		SELECT `+Alive+`, c.state = 'parked' AND NOT c.stop_requested, b.id, b.next_sequence, `+newestOfLoop+`, c.id, c.trigger,
		    c.waiting_reason, `+faultColumns+`, c.mode, c.headless OR l.task_id IS NOT NULL,
		       CASE WHEN l.id IS NULL THEN c.output_schema END, coalesce(l.model, c.model),
		       CASE WHEN l.id IS NULL THEN c.schema_tries ELSE 0 END,
		       (SELECT coalesce(sum(octet_length(i.parts::text)), 0) FROM inbox i
		        WHERE i.session_id = c.session_id AND i.chat_id = c.id AND i.kind = 'steer' AND i.state = 'queued'),
		       EXISTS (SELECT 1 FROM background_tasks k WHERE k.session_id = c.session_id AND k.status <> 'running' AND NOT k.detached
		               AND NOT EXISTS (SELECT 1 FROM entries n WHERE n.id = 'note_' || k.id)),
		       coalesce(e.id, ''), coalesce(e.sequence, 0), coalesce(e.status, ''), coalesce(e.attempt, 0),
		       coalesce(e.started_at, now()), coalesce(e.blocks, '[]'), coalesce(e.opened_by, ''),
		       (SELECT count(*) FROM tool_calls t WHERE t.entry_id = e.id), `+captureUntakenIn("c.session_id")+`, `+callsLeft+`,
		           `+LoopColumns+`
		FROM   chats c LEFT JOIN loops l ON l.id = $2 JOIN branches b ON b.id = coalesce(l.branch_id, c.branch_id) LEFT JOIN entries e
		       ON e.chat_id = c.id AND e.loop_id = $2 AND e.step = $3 AND e.status <> 'failed' AND e.role = 'assistant'
		WHERE  c.id = $1`, key.ChatID, key.LoopID, key.Step).
		QueryRow(func(row pgx.Row) error {
			return row.Scan(append([]any{
				&found.alive,
				&found.parked,
				&turn.BranchID,
				&found.sequence,
				&turn.Newest,
				&turn.Chat.ID,
				&turn.Chat.Trigger,
				&found.waiting,
				&turn.Faults.Count,
				&turn.Faults.Paid,
				&turn.Faults.Age,
				&turn.Faults.RetryIn,
				&turn.Chat.Mode,
				&turn.Chat.Headless,
				&turn.Chat.OutputSchema,
				&turn.Chat.Model,
				&turn.Chat.SchemaTries,
				&found.steered,
				&found.tasksEnded,
				&turn.EntryID,
				&turn.Sequence,
				&found.status,
				&turn.Attempt,
				&turn.StartedAt,
				&turn.Blocks,
				&found.opener,
				&turn.CallCount,
				&turn.CaptureDue,
				&found.left,
			}, LoopFields(&turn.Loop)...)...)
		})

	return found, tx.SendBatch(ctx, &batch).Close()
}

// newestOfLoop is a scalar query for the newest entry of loop $2 on the branch b
// itself, before the entry e if there is one. Empty: there is none.
const newestOfLoop = `coalesce((
	SELECT n.id FROM entries n
	WHERE  n.branch_id = b.id AND n.loop_id = $2 AND n.sequence < coalesce(e.sequence, b.next_sequence)
	ORDER  BY n.sequence DESC LIMIT 1), '')`

// released marks a turn whose model call failed before it showed any text: the
// next try streams into the same turn.
const released = 0

func openTurn(
	ctx context.Context,
	tx *pg.Tx,
	key domain.TurnKey,
	model string,
	found foundTurn,
	opener string,
	turn *domain.OpenedTurn,
) error {
	if err := joinLoop(ctx, tx, key, &found, turn); err != nil {
		return err
	}

	if err := callResumes(ctx, tx, key, found); err != nil {
		return err
	}

	turn.EntryID, turn.Attempt, turn.Sequence = domain.TurnID(domain.NewID()), 1, found.sequence
	if turn.Chat.Model != nil {
		model = *turn.Chat.Model
	}

	tx.Last(`
		numbered AS (UPDATE branches SET next_sequence = next_sequence + 1 WHERE id = @branch),
		waiting AS (UPDATE chats SET waiting_reason = 'model', waiting_until = NULL WHERE id = @chat AND @loop = 'root'),
		changed AS (
			INSERT INTO entries (id, session_id, branch_id, sequence, parent_id, chat_id, loop_id, role, status, step, attempt, model,
			                     parent_fork_tool_call_id, opened_by, started_at)
			VALUES (@entry, @session, @branch, @sequence, `+previousOfLoop(key.LoopID, "@loop", "@branch")+`, @chat, @loop,
			        'assistant', 'streaming', @step, 1, @model, @fork, nullif(@opener, ''), @started)
			RETURNING 1)`,
		pgx.NamedArgs{
			"entry": turn.EntryID, "session": key.SessionID, "branch": turn.BranchID, "sequence": turn.Sequence, "chat": key.ChatID,
			"loop": key.LoopID, "step": key.Step, "model": model, "fork": ForkOf(key.LoopID), "opener": opener, "started": turn.StartedAt,
		})

	return tx.Emit(key.SessionID, key.ChatID, domain.EventTurnStart, domain.TurnStarted{
		TurnID: turn.EntryID, Sequence: turn.Sequence, Role: domain.RoleAssistant, Status: domain.TurnStreaming,
		LoopID: key.LoopID, Kind: domain.KindMessage, Model: model, StartedAt: turn.StartedAt,
		ParentForkToolCallID: ForkOf(key.LoopID), Blocks: []domain.Block{},
	})
}

// joinLoop adds the messages and the notes that wait to join the main loop.
func joinLoop(ctx context.Context, tx *pg.Tx, key domain.TurnKey, found *foundTurn, turn *domain.OpenedTurn) error {
	root := key.LoopID == domain.RootLoop
	if root && found.steered > 0 {
		if err := joinSteered(ctx, tx, key.SessionID, turn.BranchID, key.ChatID); err != nil {
			return err
		}

		turn.CaptureDue = true // each has a checkpoint
	}

	if root && found.tasksEnded {
		if err := joinTaskNotes(ctx, tx, key.SessionID, turn.BranchID, key.ChatID); err != nil {
			return err
		}
	}

	if tx.Empty() {
		return nil
	}

	turn.Newest = "" // what was added is newer

	return tx.QueryRow(ctx, `SELECT next_sequence FROM branches WHERE id = $1`, turn.BranchID).Scan(&found.sequence)
}

// joinSteered turns the messages steered into the chat into user turns of it.
func joinSteered(ctx context.Context, tx *pg.Tx, sessionID domain.SessionID, branchID domain.BranchID, chatID domain.ChatID) error {
	rows, _ := tx.Query(ctx, `
		WITH waiting AS (SELECT id, parts FROM inbox WHERE session_id = $1 AND chat_id = $2 AND kind = 'steer' AND state = 'queued')
		UPDATE inbox i SET state = 'taken', parts = '[]' FROM waiting w WHERE i.id = w.id
		RETURNING i.id, i.turn_id, w.parts`, sessionID, chatID)

	type steered struct {
		id     int64
		turnID domain.TurnID
		parts  []domain.ContentPart
	}

	joined, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (steered, error) {
		var s steered
		return s, row.Scan(&s.id, &s.turnID, &s.parts)
	})
	if err != nil {
		return err
	}

	slices.SortFunc(joined, func(a, b steered) int { return cmp.Compare(a.id, b.id) })

	for _, s := range joined {
		if err := addUserTurn(ctx, tx, sessionID, branchID, chatID, s.turnID, s.parts); err != nil {
			return err
		}
	}

	return nil
}

// takeTurn raises the attempt, so that who held the turn writes nothing any
// more.
func takeTurn(ctx context.Context, tx pgx.Tx, opener string, turn *domain.OpenedTurn) error {
	return tx.QueryRow(ctx, `
		UPDATE entries SET attempt = greatest(attempt, max_attempt) + 1, max_attempt = greatest(attempt, max_attempt) + 1,
		       opened_by = nullif($2, '')
		WHERE  id = $1 RETURNING attempt`, turn.EntryID, opener).Scan(&turn.Attempt)
}

// FlushTurn keeps what a turn has streamed up to a position of the event log.
func (s *Store) FlushTurn(ctx context.Context, entryID domain.TurnID, attempt int, blocks []domain.Block, seq uint64) error {
	// The log holds the same text: a power cut loses nothing with this.
	var fenced bool

	err := s.InTxAsync(ctx, func(batch *pgx.Batch) {
		batch.Queue(`
			UPDATE entries SET blocks = $3, flushed_seq = $4
			WHERE  id = $1 AND attempt = $2 AND status = 'streaming'`, entryID, attempt, blocks, int64(seq)).
			Exec(func(tag pgconn.CommandTag) error {
				fenced = tag.RowsAffected() == 0
				return nil
			})
	})
	if err == nil && fenced {
		return domain.ErrFenced
	}

	return pg.Fault("flush turn", err)
}
