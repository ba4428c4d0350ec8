package transfer

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/transfer"
	"everloop/infra/postgres/pg"
	"everloop/service/recordings"
)

// Bounds of what goes to the server at a time: statements, and bytes of what they
// carry.
const (
	importBatch      = 200
	importBatchBytes = 4 << 20
)

// FinishImport writes an imported session in one transaction. Until it commits there
// is no session. An attempt that is not the latest one gets domain.ErrFenced.
func (s *Store) FinishImport(ctx context.Context, in transfer.ImportedSession) error {
	err := s.db.InTx(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			UPDATE imports SET state = 'done', imported_from = $3, changed_at = now()
			WHERE  session_id = $1 AND attempt = $2 AND state = 'running'`, in.Session.ID, in.Attempt, in.From)
		if err != nil {
			return err
		}

		if tag.RowsAffected() == 0 {
			return domain.ErrFenced
		}

		w := &importWriter{ctx: ctx, tx: tx, session: in.Session.ID}
		for _, part := range []func(transfer.ImportedSession) error{w.head, w.frame, w.turns, w.points, w.besides} {
			if err := part(in); err != nil {
				return err
			}
		}

		return w.flush()
	})

	return pg.Fault("import session", err)
}

// importWriter sends rows in batches.
type importWriter struct {
	ctx     context.Context
	tx      pgx.Tx
	session domain.SessionID
	batch   pgx.Batch
	bytes   int // about what the batch carries
}

func (w *importWriter) queue(statement string, args pgx.NamedArgs) error {
	args["session"] = w.session
	w.batch.Queue(statement, args)

	if w.batch.Len() < importBatch && w.bytes < importBatchBytes {
		return nil
	}

	return w.flush()
}

func (w *importWriter) flush() error {
	batch := w.batch

	w.batch, w.bytes = pgx.Batch{}, 0
	if batch.Len() == 0 {
		return nil
	}

	return w.tx.SendBatch(w.ctx, &batch).Close()
}

func (w *importWriter) head(in transfer.ImportedSession) error {
	s := in.Session

	disabled := s.DisableTools
	if disabled == nil {
		disabled = []string{}
	}

	return w.queue(`
		INSERT INTO sessions (id, owner_id, intent, status, solution_id, biz_role_id, template_id, primary_skill_id, model,
		    software_factory_id,
		                      mode, memory_enabled, is_persistent, disable_tools, setup, sandbox_uid, active_branch_id, intent_from_message)
		VALUES (@session, @owner, @intent, @status, @solution, @role, @template, @skill, @model, @factory,
		        @mode, @memory, @persistent, @disabled, @setup, @uid, @branch, @intent = '')`,
		pgx.NamedArgs{
			"owner":      s.OwnerID,
			"intent":     s.Intent,
			"status":     s.Status,
			"solution":   s.SolutionID,
			"role":       s.BizRoleID,
			"template":   s.TemplateID,
			"skill":      s.PrimarySkillID,
			"model":      s.Model,
			"factory":    s.SoftwareFactory,
			"mode":       s.Mode,
			"memory":     s.MemoryEnabled,
			"persistent": s.Persistent,
			"disabled":   disabled,
			"setup":      s.Setup,
			"uid":        s.SandboxUID,
			"branch":     in.Tree.ActiveBranchID,
		})
}

func (w *importWriter) frame(in transfer.ImportedSession) error {
	for _, b := range in.Tree.Branches {
		if err := w.queue(`
			INSERT INTO branches (id, session_id, parent_branch_id, fork_sequence, next_sequence, lineage, reason, name, created_at)
			VALUES (@id, @session, @parent, @fork, @next, @lineage, @reason, @name, @created)`,
			pgx.NamedArgs{
				"id":      b.ID,
				"parent":  b.ParentBranchID,
				"fork":    b.ForkSequence,
				"next":    b.NextSequence,
				"lineage": b.Lineage,
				"reason":  b.Reason,
				"name":    b.Name,
				"created": b.CreatedAt,
			}); err != nil {
			return err
		}
	}

	for _, c := range in.Tree.Chats {
		if err := w.queue(`
			INSERT INTO chats (id, session_id, branch_id, trigger, mode, headless, output_schema, model, state, steps, input_tokens,
			    output_tokens,
			                   cache_read_tokens, cache_write_tokens, cost_nano, uncosted_tokens, round, archived_round,
			                       waiting_reason, started_at, finish_reason, error_code, error_message, ended_at, created_at)
			VALUES (@id, @session, @branch, @trigger, @mode, @headless, @schema, @model, @state, @steps, @input, @output,
			        @read, @written, @cost, @uncosted, @round, @round, CASE WHEN @state = 'parked' THEN 'question'
			            ELSE 'none' END, @started, @reason, @code, @message, @ended, @created)`,
			pgx.NamedArgs{
				"id":       c.ID,
				"branch":   c.BranchID,
				"trigger":  c.Trigger,
				"mode":     c.Mode,
				"headless": c.Headless,
				"schema":   pg.NullIfEmpty(c.OutputSchema),
				"model":    c.Model,
				"state":    c.State,
				"steps":    c.Steps,
				"input":    c.InputTokens,
				"output":   c.OutputTokens,
				"round":    c.Round,
				"read":     c.CacheRead,
				"written":  c.CacheWrite,
				"cost":     c.Cost,
				"uncosted": c.Uncosted,
				"started":  c.StartedAt,
				"reason":   c.FinishReason,
				"code":     c.ErrorCode,
				"message":  c.ErrorMessage,
				"ended":    c.EndedAt,
				"created":  c.CreatedAt,
			}); err != nil {
			return err
		}
	}

	return nil
}

func (w *importWriter) turns(in transfer.ImportedSession) error {
	if err := in.Entries(w.turn); err != nil {
		return err
	}

	for _, b := range in.Tree.Branches {
		if b.ForkedFromID == nil {
			continue
		}

		if err := w.queue(`UPDATE branches SET forked_from_id = @entry WHERE id = @id AND session_id = @session`,
			pgx.NamedArgs{"id": b.ID, "entry": b.ForkedFromID}); err != nil {
			return err
		}
	}

	return nil
}

func (w *importWriter) turn(e transfer.EntryRecord) error {
	w.bytes += len(e.Compaction)
	for _, block := range e.Blocks {
		w.bytes += len(block.Content)
	}

	for _, part := range e.Parts {
		w.bytes += len(part.Text)
	}

	if err := w.queue(`
		INSERT INTO entries (id, session_id, branch_id, sequence, parent_id, chat_id, loop_id, parent_fork_tool_call_id, kind, role,
		    status, step,
		                     attempt, max_attempt, blocks, parts, model, input_tokens, output_tokens, duration_ms, context_window,
		                         deprecated_on,
		                     failure_reason, compaction, started_at, ended_at, reasoning_field, cache_read_tokens, cache_write_tokens,
		                         cost_nano, server_members)
		VALUES (@id, @session, @branch, @sequence, @parent, @chat, @loop, @fork, @kind, @role, @status, @step,
		        1, 1, @blocks, @parts, @model, @input, @output, @duration, @window, @deprecated, @failure, @compaction, @started,
		            @ended, @reasoning,
		        @read, @written, @cost, @members)`,
		pgx.NamedArgs{
			"id":         e.ID,
			"branch":     e.BranchID,
			"sequence":   e.Sequence,
			"parent":     e.ParentID,
			"chat":       e.ChatID,
			"loop":       e.LoopID,
			"fork":       e.ParentForkToolCallID,
			"kind":       e.Kind,
			"role":       e.Role,
			"status":     e.Status,
			"step":       e.Step,
			"blocks":     e.Blocks,
			"parts":      recordings.NullParts(e.Parts),
			"model":      e.Model,
			"input":      e.InputTokens,
			"output":     e.OutputTokens,
			"duration":   e.DurationMS,
			"window":     e.ContextWindow,
			"deprecated": deprecatedOn(e),
			"failure":    e.FailureReason,
			"compaction": pg.NullIfEmpty(e.Compaction),
			"started":    e.StartedAt,
			"ended":      e.EndedAt,
			"reasoning":  e.ReasoningField,
			"read":       e.CacheRead,
			"written":    e.CacheWrite,
			"cost":       e.Cost,
			"members":    e.ServerMembers,
		}); err != nil {
		return err
	}

	for position, call := range e.Calls {
		if err := w.call(e, position, call); err != nil {
			return err
		}
	}

	return nil
}

// deprecatedOn returns the branches that leave the entry out. Archives of earlier
// versions say only that every branch does.
func deprecatedOn(e transfer.EntryRecord) []domain.BranchID {
	if e.Deprecated && len(e.DeprecatedOn) == 0 {
		return []domain.BranchID{e.BranchID}
	}

	return e.DeprecatedOn
}

func (w *importWriter) call(e transfer.EntryRecord, position int, call transfer.CallRecord) error {
	w.bytes += len(call.Arguments) + len(call.Result)
	if err := w.queue(`
		INSERT INTO tool_calls (id, session_id, chat_id, entry_id, position, tool_name, display_name, arguments, status, phase,
		    attempt, result,
		                        started_at, duration_ms, created_at, server_call_id, server_members, connections, images)
		VALUES (@id, @session, @chat, @entry, @position, @tool, @display, @arguments, @status, @phase, 1, @result, @started, @duration,
		    @created,
		        @server, @members, @connections, @images)`,
		pgx.NamedArgs{
			"id": call.ID, "chat": e.ChatID, "entry": e.ID, "position": position, "tool": call.ToolName, "display": call.DisplayName,
			"arguments": call.Arguments, "status": call.Status, "phase": call.Phase, "result": call.Result, "started": call.StartedAt,
			"duration": call.DurationMS, "created": call.CreatedAt, "server": call.ServerCallID, "members": call.ServerMembers,
			"connections": pg.NullIfEmpty(call.Connections), "images": pg.NullIfEmpty(call.Images),
		}); err != nil || call.Question == nil {
		return err
	}

	q := call.Question

	questions := q.Questions
	if len(questions) == 0 {
		questions = json.RawMessage("[]")
	}

	return w.queue(`
		INSERT INTO questions (id, session_id, chat_id, entry_id, tool_call_id, loop_id, questions, source_loop, state, answer,
		    asked_at, resolved_at)
		VALUES (@id, @session, @chat, @entry, @call, @loop, @questions, @source, @state, @answer, @asked, @resolved)`,
		pgx.NamedArgs{
			"id":        q.ID,
			"chat":      e.ChatID,
			"entry":     e.ID,
			"call":      call.ID,
			"loop":      e.LoopID,
			"questions": questions,
			"source": pg.NullIfEmpty(
				q.SourceLoop,
			),
			"state":    q.State,
			"answer":   pg.NullIfEmpty(q.Answer),
			"asked":    q.AskedAt,
			"resolved": q.ResolvedAt,
		})
}

// points writes the checkpoints. One whose files are not there stays a point of
// the conversation.
func (w *importWriter) points(in transfer.ImportedSession) error {
	for _, k := range in.Tree.Checkpoints {
		if err := w.queue(`
			INSERT INTO checkpoints (id, session_id, branch_id, turn_id, chat_id, kind, sequence, label, state, snapshot_id, changed,
			    added, deleted,
			                         bytes, complete, failure, created_at, captured_at)
			VALUES (@id, @session, @branch, @turn, @chat, @kind, @sequence, @label,
			        CASE WHEN @snapshot::text IS NULL THEN 'failed' ELSE 'captured' END, @snapshot, @changed, @added, @deleted, @bytes,
			            @complete,
			        CASE WHEN @snapshot::text IS NULL THEN 'its files were not in the archive' END, @created, @created)`,
			pgx.NamedArgs{
				"id":       k.ID,
				"branch":   k.BranchID,
				"turn":     k.TurnID,
				"chat":     k.ChatID,
				"kind":     k.Kind,
				"sequence": k.Sequence,
				"label":    k.Label,
				"snapshot": k.SnapshotID,
				"changed":  k.Changed,
				"added":    k.Added,
				"deleted":  k.Deleted,
				"bytes":    k.Bytes,
				"complete": k.Complete,
				"created":  k.CreatedAt,
			}); err != nil {
			return err
		}
	}

	return nil
}

// besides writes the task list, the extra info and where the events lie.
func (w *importWriter) besides(in transfer.ImportedSession) error {
	if err := w.tasks(in.Tasks); err != nil {
		return err
	}

	if len(in.Extra) > 2 {
		if err := w.queue(`INSERT INTO session_extras (session_id, extra)
			VALUES (@session, @extra)`, pgx.NamedArgs{"extra": in.Extra}); err != nil {
			return err
		}
	}

	for _, part := range in.Events {
		if err := w.queue(`
			INSERT INTO event_archives (session_id, from_seq, upto_seq, key, events) VALUES (@session, @from, @upto, @key, @events)`,
			pgx.NamedArgs{"from": int64(part.FromSeq), "upto": int64(part.UpToSeq), "key": part.Key, "events": part.Events}); err != nil {
			return err
		}
	}

	return nil
}

// tasks writes the task list under ids of its own.
func (w *importWriter) tasks(list []domain.SessionTask) error {
	ids := map[string]string{}
	for _, t := range list {
		ids[t.ID] = domain.NewID()
	}

	for i, t := range list {
		before := make([]string, len(t.BlockedBy))
		for j, id := range t.BlockedBy {
			before[j] = ids[id]
		}

		if err := w.queue(`
			INSERT INTO session_tasks (id, session_id, subject, description, status, owner, blocked_by, position, created_at, updated_at)
			VALUES (@id, @session, @subject, @description, @status, @owner, @blocked_by, @position, @created, @updated)`,
			pgx.NamedArgs{
				"id": ids[t.ID], "subject": t.Subject, "description": t.Description, "status": t.Status, "owner": t.Owner,
				"blocked_by": before, "position": i + 1, "created": t.CreatedAt, "updated": t.UpdatedAt,
			}); err != nil {
			return err
		}
	}

	return nil
}
