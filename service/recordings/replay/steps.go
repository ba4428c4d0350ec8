package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/replay"
	"everloop/infra/postgres/conversation"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
	"everloop/internal/durable"
	"everloop/service/recordings"
)

// stepPlayer turns recorded events into rows and events of the session
// that replays them.
type stepPlayer struct {
	*pg.Tx
	session sessions.Locked
	text    map[domain.TurnID][]domain.Block
}

// playedParent is a scalar query for the parent of the next entry of the loop $6
// on branch $1: the loop's last one, or the turn whose call started the loop.
const playedParent = `coalesce(
	(SELECT p.id FROM entries p WHERE p.branch_id = $1 AND p.loop_id = $6 ORDER BY p.sequence DESC LIMIT 1),
	(SELECT t.entry_id FROM tool_calls t WHERE t.id = $6))`

// playedEvent is the union of the payloads that change records when they are
// played.
type playedEvent struct {
	// chat:start, chat:end
	Mode         domain.Mode         `json:"mode"`
	Headless     bool                `json:"headless"`
	Trigger      domain.Trigger      `json:"trigger"`
	FinishReason domain.FinishReason `json:"finish_reason"`
	Steps        int                 `json:"steps"`
	Error        *domain.ChatError   `json:"error"`

	// turn:start, turn:end
	TurnID               domain.TurnID `json:"turn_id"`
	Role                 domain.Role   `json:"role"`
	Status               string        `json:"status"`
	LoopID               string        `json:"loop_id"`
	Kind                 string        `json:"kind"`
	Model                string        `json:"model"`
	ParentForkToolCallID *string       `json:"parent_fork_tool_call_id"`
	Usage                domain.Usage  `json:"usage"`
	DurationMS           int64         `json:"duration_ms"`
	FailureReason        *string       `json:"failure_reason"`

	// turn:patch
	PatchType  string           `json:"patch_type"`
	ToolCall   *domain.ToolCall `json:"tool_call"`
	ToolCallID string           `json:"tool_call_id"`
	Result     string           `json:"result"`

	Connections []domain.Connection `json:"connections"`
	Images      []domain.CallImage  `json:"images"`

	// question:resolved
	QuestionID string `json:"question_id"`
	Resolution string `json:"resolution"`
	By         string `json:"by"`

	// session:compacted
	Turn *domain.Turn `json:"turn"`
}

func (p stepPlayer) play(ctx context.Context, step replay.Step) error {
	if step.Checkpoint != nil {
		if err := p.checkpoint(ctx, step); err != nil {
			return fmt.Errorf("replay %s: checkpoint: %w", p.session.ID, err)
		}
	}

	if step.Name == replay.Cut || step.Name == replay.Batch {
		return nil
	}

	var e playedEvent
	if err := json.Unmarshal(step.Data, &e); err != nil {
		return fmt.Errorf("replay %s: step %s: %w", p.session.ID, step.Name, err)
	}

	var err error

	data := step.Data
	summary := false // the session's summary changes with this step

	switch step.Name {
	case domain.EventChatStart:
		summary, err = true, p.chatStart(ctx, step.ChatID, e)
	case domain.EventChatEnd:
		summary, err = true, p.chatEnd(ctx, step, e)
	case domain.EventTurnStart:
		data, err = p.turnStart(ctx, step, e)
	case domain.EventTurnEnd:
		err = p.turnEnd(ctx, e)
	case domain.EventTurnPatch:
		err = p.patch(ctx, step, e)
	case domain.EventQuestionResolved:
		_, err = p.Exec(ctx, `
			UPDATE questions SET state = $2, resolved_by = nullif($3, ''), resolved_at = now() WHERE id = $1 AND session_id = $4`,
			e.QuestionID, e.Resolution, e.By, p.session.ID)
	case domain.EventSessionCompacted:
		data, err = p.compacted(ctx, step, e)
	}

	if err != nil {
		return fmt.Errorf("replay %s: play %s: %w", p.session.ID, step.Name, err)
	}

	p.Add(domain.Event{
		ID: domain.NewID(), SessionID: p.session.ID, ChatID: step.ChatID, Name: step.Name, At: time.Now().UTC(), Data: data,
	})

	if summary {
		return sessions.EmitUpdated(ctx, p.Tx, p.session.ID)
	}

	return nil
}

// checkpoint notes a checkpoint of the source as one of this session. Its files
// are the source's until the playback has ended and they are copied.
func (p stepPlayer) checkpoint(ctx context.Context, step replay.Step) error {
	k := step.Checkpoint
	if k.SnapshotID == nil {
		return nil
	}

	_, err := p.Exec(ctx, `
		INSERT INTO checkpoints (id, session_id, branch_id, turn_id, chat_id, kind, sequence, label, state, snapshot_id,
		                         changed, added, deleted, bytes, complete, captured_at)
		SELECT @id, @session, @branch, e.id, e.chat_id, @kind, e.sequence, @label, 'captured', @snapshot,
		       @changed, @added, @deleted, @bytes, @complete, now()
		FROM   entries e WHERE e.id = @turn
		ON CONFLICT DO NOTHING`,
		pgx.NamedArgs{
			"id": k.ID, "session": p.session.ID, "branch": p.session.BranchID, "kind": k.Kind, "label": k.Label, "snapshot": k.SnapshotID,
			"changed": k.Changed, "added": k.Added, "deleted": k.Deleted, "bytes": k.Bytes, "complete": k.Complete, "turn": k.TurnID,
		})

	return err
}

func (p stepPlayer) chatStart(ctx context.Context, chatID domain.ChatID, e playedEvent) error {
	if e.Trigger == domain.TriggerAnswer {
		if _, err := p.Exec(ctx, `
			UPDATE chats SET state = 'running', round = round + 1, waiting_reason = 'model', finish_reason = NULL, started_at = now()
			WHERE  id = $1 AND session_id = $2`, chatID, p.session.ID); err != nil {
			return err
		}
	} else {
		if err := conversation.EndWaitingPlayback(ctx, p, p.session.ID); err != nil { // a message came instead of an answer
			return err
		}

		if _, err := p.Exec(
			ctx,
			`
			INSERT INTO chats (id, session_id, branch_id, trigger, mode, headless, model, state, workflow_id, round, waiting_reason,
			    started_at)
			VALUES ($1, $2, $3, 'replay', $4, $5, $6, 'running', $7, 1, 'model', now())`,
			chatID,
			p.session.ID,
			p.session.BranchID,
			e.Mode,
			e.Headless,
			p.session.Model,
			durable.ReplayWorkflowID(string(p.session.ID)),
		); err != nil {
			return err
		}
	}

	_, err := p.Exec(ctx, `
		UPDATE sessions SET active_chat_id = $2, status = 'running', updated_at = now() WHERE id = $1`, p.session.ID, chatID)

	return err
}

func (p stepPlayer) chatEnd(ctx context.Context, step replay.Step, e playedEvent) error {
	var end domain.LastEnd
	if err := json.Unmarshal(step.Data, &end); err != nil {
		return err
	}

	end.ChatID = step.ChatID

	var failed domain.ChatError
	if e.Error != nil {
		failed = *e.Error
	}

	state := "ended"
	if e.FinishReason == domain.FinishAwaitingAnswer {
		state = "parked"
	}

	if _, err := p.Exec(ctx, `
		UPDATE chats SET state = $3, ended_at = CASE WHEN $3 = 'ended' THEN now() END, finish_reason = $4, steps = $5,
		       input_tokens = $6, output_tokens = $7, cache_read_tokens = $10, cache_write_tokens = $11, cost_nano = $12,
		       uncosted_tokens = $13, error_code = nullif($8, ''), error_message = nullif($9, ''),
		       waiting_reason = CASE WHEN $3 = 'ended' THEN 'none' ELSE 'question' END
		WHERE  id = $1 AND session_id = $2`,
		step.ChatID, p.session.ID, state, e.FinishReason, e.Steps, e.Usage.InputTokens, e.Usage.OutputTokens, failed.Code, failed.Message,
		e.Usage.CacheReadTokens, e.Usage.CacheWriteTokens, e.Usage.Cost, e.Usage.UncostedTokens); err != nil {
		return err
	}

	_, err := p.Exec(ctx, `
		UPDATE sessions SET active_chat_id = NULL, status = $2, updated_at = now(), last_end = $3 WHERE id = $1`,
		p.session.ID, e.FinishReason.SessionStatus(), end)

	return err
}

func (p stepPlayer) turnStart(ctx context.Context, step replay.Step, e playedEvent) (json.RawMessage, error) {
	var own domain.TurnStarted
	if err := json.Unmarshal(step.Data, &own); err != nil {
		return nil, err
	}

	if step.Entry == nil {
		step.Entry = &replay.Entry{}
	}

	sequence, err := conversation.NextSequence(ctx, p, p.session.BranchID)
	if err != nil {
		return nil, err
	}

	if own.Blocks == nil {
		own.Blocks = []domain.Block{}
	}

	own.Sequence = sequence

	err = p.QueryRow(
		ctx,
		`
		INSERT INTO entries (id, session_id, branch_id, sequence, parent_id, chat_id, loop_id, parent_fork_tool_call_id, kind, role, status,
		                     step, attempt, blocks, parts, model, context_window, deprecated_on, reasoning_field,
		                     server_members)
		VALUES ($2, $3, $1, $4, `+playedParent+`, $5, $6, $7, $8, $9, $10, $11, 1, $12, $13, $14, $15, CASE
			WHEN $16 THEN ARRAY[$1] END, $17, $18)
		RETURNING started_at`,
		p.session.BranchID,
		own.TurnID,
		p.session.ID,
		sequence,
		step.ChatID,
		own.LoopID,
		own.ParentForkToolCallID,
		own.Kind,
		own.Role,
		own.Status,
		step.Entry.Step,
		own.Blocks,
		recordings.NullParts(step.Entry.Parts),
		own.Model,
		step.Entry.ContextWindow,
		step.Entry.Deprecated,
		step.Entry.ReasoningField,
		step.Entry.ServerMembers,
	).
		Scan(&own.StartedAt)
	if err != nil {
		return nil, err
	}

	return json.Marshal(own)
}

// compacted plays the entry of a compaction, whose projection its event carries.
func (p stepPlayer) compacted(ctx context.Context, step replay.Step, e playedEvent) (json.RawMessage, error) {
	if e.Turn == nil || step.Entry == nil {
		return step.Data, nil
	}

	t := e.Turn

	sequence, err := conversation.NextSequence(ctx, p, p.session.BranchID)
	if err != nil {
		return nil, err
	}

	t.Sequence = sequence

	err = p.QueryRow(ctx, `
		INSERT INTO entries (id, session_id, branch_id, sequence, parent_id, chat_id, loop_id, kind, role, status, step, attempt, blocks,
		                     model, context_window, compaction, ended_at)
		VALUES ($2, $3, $1, $4, `+playedParent+`, $5, $6, $7, $8, $9, $10, 1, $11, $12, $13, $14, now())
		RETURNING started_at`,
		p.session.BranchID, t.TurnID, p.session.ID, sequence, t.ChatID, t.LoopID, t.Kind, t.Role, t.Status, step.Entry.Step, t.Blocks,
		t.Model, t.ContextWindow, pg.NullIfEmpty(step.Entry.Compaction)).Scan(&t.StartedAt)
	if err != nil {
		return nil, err
	}

	return json.Marshal(map[string]any{"turn": t})
}

func (p stepPlayer) turnEnd(ctx context.Context, e playedEvent) error {
	_, err := p.Exec(ctx, `
		UPDATE entries SET status = $3, input_tokens = $4, output_tokens = $5, duration_ms = $6, failure_reason = $7, ended_at = now(),
		       cache_read_tokens = $8, cache_write_tokens = $9, cost_nano = $10
		WHERE  id = $1 AND session_id = $2`,
		e.TurnID, p.session.ID, e.Status, e.Usage.InputTokens, e.Usage.OutputTokens, e.DurationMS, e.FailureReason,
		e.Usage.CacheReadTokens, e.Usage.CacheWriteTokens, e.Usage.Cost)
	if err != nil {
		return err
	}

	_, err = p.Exec(ctx, `
		UPDATE chats c SET input_tokens = c.input_tokens + $2, output_tokens = c.output_tokens + $3,
		       cache_read_tokens = c.cache_read_tokens + $4, cache_write_tokens = c.cache_write_tokens + $5, cost_nano = c.cost_nano + $6,
		       steps = greatest(c.steps, e.step)
		FROM   entries e WHERE e.id = $1 AND c.id = e.chat_id AND e.role = 'assistant' AND e.loop_id = 'root'`,
		e.TurnID, e.Usage.InputTokens, e.Usage.OutputTokens, e.Usage.CacheReadTokens, e.Usage.CacheWriteTokens, e.Usage.Cost)

	return err
}

func (p stepPlayer) patch(ctx context.Context, step replay.Step, e playedEvent) error {
	switch {
	case e.PatchType == domain.PatchAddToolCall && e.ToolCall != nil:
		call := *e.ToolCall
		call.ServerCallID, call.ServerMembers = step.ServerCallID, step.ServerMembers

		return p.addCall(ctx, step.ChatID, e.TurnID, call)
	case e.PatchType == domain.PatchToolResult:
		_, err := p.Exec(ctx, `
			UPDATE tool_calls SET status = $3, result = $4, duration_ms = $5, connections = $6, images = $7,
			       phase = 'finished'
			WHERE  id = $1 AND session_id = $2`,
			e.ToolCallID, p.session.ID, e.Status, e.Result, e.DurationMS, pg.NullIfEmpty(usable(e.Connections)),
			pg.NullIfEmpty(usableImages(e.Images)))

		return err
	default:
		return nil // text is kept once for all steps; the rest leaves no trace
	}
}

// usable leaves out what an archive made elsewhere claims of connections and no
// service has recorded.
func usable(connections []domain.Connection) []domain.Connection {
	if !domain.ConnectionsUsable(connections) {
		return nil
	}

	return connections
}

// usableImages is usable for images.
func usableImages(images []domain.CallImage) []domain.CallImage {
	if !domain.CallImagesUsable(images) {
		return nil
	}

	return images
}

func (p stepPlayer) addCall(ctx context.Context, chatID domain.ChatID, turnID domain.TurnID, call domain.ToolCall) error {
	if _, err := p.Exec(
		ctx,
		`
		INSERT INTO tool_calls (id, session_id, chat_id, entry_id, position, tool_name, display_name, arguments, status, phase, attempt,
		                        server_call_id, server_members)
		VALUES ($1, $2, $3, $4, (SELECT count(*) FROM tool_calls WHERE entry_id = $4), $5, $6, $7, $8, 'queued', 1, $9, $10)`,
		call.ID,
		p.session.ID,
		chatID,
		turnID,
		call.ToolName,
		call.DisplayName,
		call.Arguments,
		call.Status,
		call.ServerCallID,
		call.ServerMembers,
	); err != nil {
		return err
	}

	if call.PendingQuestionRef == nil {
		return nil
	}

	var asked struct {
		Questions json.RawMessage `json:"questions"`
	}
	if json.Unmarshal([]byte(call.Arguments), &asked) != nil || asked.Questions == nil {
		asked.Questions = json.RawMessage("[]")
	}

	_, err := p.Exec(ctx, `
		INSERT INTO questions (id, session_id, chat_id, entry_id, tool_call_id, loop_id, questions)
		VALUES ($1, $2, $3, $4, $5, (SELECT loop_id FROM entries WHERE id = $4), $6)`,
		call.PendingQuestionRef.QuestionID, p.session.ID, chatID, turnID, call.ID, asked.Questions)

	return err
}

// keepText keeps the text of the turns that the steps touched.
func (p stepPlayer) keepText(ctx context.Context) error {
	for turn, blocks := range p.text {
		if _, err := p.Exec(ctx, `UPDATE entries SET blocks = $3 WHERE id = $1
			AND session_id = $2`, turn, p.session.ID, blocks); err != nil {
			return err
		}
	}

	return nil
}
