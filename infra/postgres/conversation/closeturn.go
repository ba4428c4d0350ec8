package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
)

// CloseTurn is CloseAndClaim for a turn whose calls, if it has any, no worker claims.
func (s *Store) CloseTurn(ctx context.Context, turn domain.ClosingTurn) error {
	_, err := s.CloseAndClaim(ctx, turn)
	return err
}

// CloseAndClaim ends a turn with all that it holds: its text, its usage and the tool
// calls that it asks for, which enter the ledger and are claimed. Calls that ask the
// user open their questions, and the turn is paused.
//
// Calls with a claimant enter the ledger as running, like after ClaimCall, and are
// returned, unless their chat was stopped: then they are left to their run.
func (s *Store) CloseAndClaim(ctx context.Context, turn domain.ClosingTurn) (claimed []domain.LedgerCall, err error) {
	c := newClosing(turn)
	if turn.Retry != nil {
		return nil, pg.Fault("close turn", s.closeForRetry(ctx, c))
	}

	var events pg.Events
	if err := c.emit(&events); err != nil {
		return nil, pg.Fault("close turn", err)
	}

	err = s.UpdateOne(ctx, &events, pg.Statement{Parts: c.parts, Args: c.args, Columns: c.columns(), From: c.from()}, c.fields()...)
	if err != nil {
		return nil, pg.Fault("close turn", err)
	}

	return c.claimed(), nil
}

// closeForRetry ends a turn whose model call is made again later. It has no calls.
func (s *Store) closeForRetry(ctx context.Context, c *closing) error {
	return s.Update(ctx, func(tx *pg.Tx) error {
		var one int

		err := tx.QueryRow(ctx, `WITH `+c.parts+` SELECT 1 FROM changed`, c.args).Scan(&one)
		if errors.Is(err, pgx.ErrNoRows) {
			return domain.ErrFenced
		}

		if err != nil {
			return err
		}

		emitUnpublished(&tx.Events, c.turn.Unpublished)

		if err := keepRetry(ctx, tx, c.turn.TurnKey, c.turn.EntryID, *c.turn.Retry); err != nil {
			return err
		}

		return c.emitEnd(&tx.Events)
	})
}

// closing is the end of one turn: the parts of its statement with their parameters,
// and what the statement returns.
type closing struct {
	turn  domain.ClosingTurn
	parts string
	args  pgx.NamedArgs
	asked []*domain.PendingQuestionRef // by call

	claims     bool
	alive      bool // the calls with a claimant are running
	startedAt  time.Time
	captureDue bool
	mode       domain.Mode
	headless   bool
	loop       domain.LoopSettings
	session    domain.Session
}

func newClosing(turn domain.ClosingTurn) *closing {
	c := &closing{turn: turn, parts: closeEntry, asked: make([]*domain.PendingQuestionRef, len(turn.Calls))}

	waiting := domain.WaitingModel
	if len(turn.Calls) > 0 {
		waiting = domain.WaitingTool
	}

	c.args = sessions.UsageArgs(turn.Model, turn.Usage)
	maps.Copy(c.args, pgx.NamedArgs{
		"session":   turn.SessionID,
		"chat":      turn.ChatID,
		"loop":      turn.LoopID,
		"step":      turn.Step,
		"entry":     turn.EntryID,
		"attempt":   turn.Attempt,
		"status":    turn.Status,
		"blocks":    turn.Blocks,
		"model":     turn.Model,
		"window":    turn.ContextWindow,
		"duration":  turn.Duration.Milliseconds(),
		"prompt":    turn.PromptTokens,
		"failure":   turn.FailureReason,
		"reasoning": turn.ReasoningField,
		"waiting":   waiting,
		"rejected":  turn.Rejected,
		"reminded":  turn.Reminded,
		"over":      turn.FaultsOver && turn.LoopID == domain.RootLoop,
	})

	c.args["members"] = turn.ServerMembers

	if turn.FaultsOver && turn.LoopID != domain.RootLoop {
		c.parts += endFaults
	}

	if writesFiles(turn) {
		c.parts += addToolBatch
		c.args["checkpoint"] = domain.NewID()
	}

	if len(turn.Calls) > 0 {
		c.addCalls()
	}

	return c
}

// closeEntry locks the session, ends the entry if this attempt still holds it, and
// counts its usage. Each part waits for the one before it by its FROM. What a part
// updates is looked at again after the lock; what it only reads is as it was before.
var closeEntry = `
	locked AS MATERIALIZED (
		SELECT ` + sessions.WorkColumns + `, s.deleted_at FROM sessions s WHERE s.id = @session FOR UPDATE),
	changed AS (
		UPDATE entries e SET status = @status, blocks = @blocks, input_tokens = @input,
			prompt_tokens = nullif(@prompt::bigint, 0), output_tokens = @output,
		       cache_read_tokens = @cache_read, cache_write_tokens = @cache_write, cost_nano = @cost,
		       model = CASE WHEN @model = '' THEN model ELSE @model END, context_window = @window,
		       duration_ms = @duration, failure_reason = nullif(@failure, ''), reasoning_field = @reasoning, ended_at = now(),
		       server_members = @members,
		       memory_refs = CASE WHEN @reminded AND jsonb_typeof(e.memory_refs) = 'array' THEN (
		           SELECT jsonb_agg(r.ref || '{"used": true}' ORDER BY r.place)
		           FROM   jsonb_array_elements(e.memory_refs) WITH ORDINALITY AS r (ref, place)) ELSE e.memory_refs END
		FROM   locked
		WHERE  e.id = @entry AND e.attempt = @attempt AND e.status = 'streaming'
		RETURNING e.id AS entry_id, e.branch_id, e.sequence),
	chat AS (
		UPDATE chats c SET steps = CASE WHEN @loop = 'root' THEN greatest(steps, @step) ELSE steps END,
		       ` + sessions.AddToChat + `,
		       waiting_reason = CASE WHEN @loop = 'root' THEN @waiting ELSE waiting_reason END,
		       schema_tries = schema_tries + CASE WHEN @rejected THEN 1 ELSE 0 END,
		       model_faults = CASE WHEN @over THEN 0 ELSE model_faults END,
		       model_faults_paid = CASE WHEN @over THEN 0 ELSE model_faults_paid END,
		       model_faults_since = CASE WHEN @over THEN NULL ELSE model_faults_since END,
		       model_retry_at = CASE WHEN @over THEN NULL ELSE model_retry_at END
		FROM   changed WHERE c.id = @chat
		RETURNING c.id, c.session_id, c.state, c.stop_requested, c.mode, c.headless),
	spent AS (
		UPDATE sessions s SET ` + sessions.AddToSession + `
		FROM   changed WHERE s.id = @session),
	counted AS (` + countTurn + `)`

var countTurn = sessions.CountUsage(`SELECT locked.id, locked.owner_id FROM changed CROSS JOIN locked`)

// endFaults ends the model faults of a sub-agent: a call of it succeeded. Those of
// the main loop end with closeEntry.
const endFaults = `,
	faults AS (
		UPDATE loops SET model_faults = 0, model_faults_paid = 0, model_faults_since = NULL, model_retry_at = NULL
		FROM   changed WHERE id = @loop)`

// writesFiles reports whether files must be captured after the turn's calls. What
// sub-agents do is part of the turn that called them.
func writesFiles(turn domain.ClosingTurn) bool {
	for _, call := range turn.Calls {
		if turn.LoopID == domain.RootLoop && call.Settled == nil && (call.Acts || call.Fork != nil) {
			return true
		}
	}

	return false
}

// addToolBatch adds the checkpoint whose files are captured after the turn's calls.
const addToolBatch = `,
	captured AS (
		INSERT INTO checkpoints (id, session_id, branch_id, turn_id, chat_id, kind, sequence)
		SELECT @checkpoint, @session, branch_id, entry_id, @chat, 'tool_batch', sequence FROM changed)`

// addCalls adds the turn's calls to the ledger. Those with a claimant are running if
// work for their loop may start.
const addCalls = `,
	alive AS (
		SELECT s.deleted_at IS NULL AND ` + Alive + ` AS ok
		FROM   chat c CROSS JOIN locked s LEFT JOIN loops l ON l.id = @loop),
	calls AS (
		INSERT INTO tool_calls (id, session_id, chat_id, entry_id, position, tool_name, display_name, arguments, status, phase, result,
		                        server_call_id, server_members, attempt, started_at, lease_until, claimed_by)
		SELECT t.id, @session, @chat, changed.entry_id, t.number - 1, t.tool_name, t.display_name, t.arguments, t.status,
		       CASE WHEN t.claimant <> '' AND alive.ok THEN 'running' ELSE t.phase END, t.result, t.server_call_id, t.members,
		       CASE WHEN t.claimant <> '' AND alive.ok THEN 1 ELSE 0 END,
		       CASE WHEN t.claimant <> '' AND alive.ok THEN now() END,
		       CASE WHEN t.claimant <> '' AND alive.ok THEN now() + @lease::interval END,
		       CASE WHEN t.claimant <> '' AND alive.ok THEN t.claimant END
		FROM   changed CROSS JOIN alive CROSS JOIN unnest(
			@call_ids::text[], @call_tools::text[], @call_displays::text[], @call_arguments::text[], @call_statuses::text[],
			@call_phases::text[], @call_results::text[], @call_server_ids::text[], @call_claimants::text[], @call_members::text[])
			WITH ORDINALITY AS t (
				id, tool_name, display_name, arguments, status, phase, result, server_call_id, claimant, members, number))`

// addQuestions opens the questions of calls that ask the user.
const addQuestions = `,
	asked AS (
		INSERT INTO questions (id, session_id, chat_id, entry_id, tool_call_id, loop_id, questions, asked_at, source_loop, guards,
			allows, files,
		                       expires_at, default_policy, escalate_at)
		SELECT q.id, @session, @chat, changed.entry_id, q.call, @loop, q.questions, q.asked_at, q.source, nullif(q.guards, ''), q.allows,
		       nullif(q.files, 'null'),
		       q.expires_at, nullif(q.policy, ''), q.escalate_at
		FROM   changed CROSS JOIN jsonb_to_recordset(@questions::jsonb) AS q (
			id text, call text, questions jsonb, asked_at timestamptz, source jsonb, guards text, allows jsonb, files jsonb,
			expires_at timestamptz, policy text, escalate_at timestamptz))`

type askedQuestion struct {
	ID        string                  `json:"id"`
	Call      string                  `json:"call"`
	Questions json.RawMessage         `json:"questions"`
	AskedAt   time.Time               `json:"asked_at"`
	Source    *domain.SourceLoop      `json:"source"`
	Guards    string                  `json:"guards"`
	Allows    []domain.PermissionRule `json:"allows"`
	Files     map[string]string       `json:"files"`

	ExpiresAt  *time.Time           `json:"expires_at"`
	Policy     domain.DefaultPolicy `json:"policy"`
	EscalateAt *time.Time           `json:"escalate_at"`
}

// addLoops reserves the loops of calls that are sub-agents.
const addLoops = `,
	reserved AS (
		INSERT INTO loops (id, session_id, chat_id, branch_id, parent_loop_id, task_id, background, depth, agent_type, description,
		                   instructions, prompt, tools, model, max_steps, time_limit_s)
		SELECT f.id, @session, @chat, changed.branch_id, @loop, nullif(f.task, ''), f.background, f.depth, f.type, f.description,
		       f.instructions, f.prompt, f.tools, f.model, f.steps, f.seconds
		FROM   changed CROSS JOIN jsonb_to_recordset(@forks::jsonb) AS f (
			id text, task text, background boolean, depth int, type text, description text,
			instructions text, prompt text, tools text[], model text, steps int, seconds bigint))`

type reservedLoop struct {
	ID           string   `json:"id"`
	Task         string   `json:"task"`
	Background   bool     `json:"background"`
	Depth        int      `json:"depth"`
	Type         string   `json:"type"`
	Description  string   `json:"description"`
	Instructions string   `json:"instructions"`
	Prompt       string   `json:"prompt"`
	Tools        []string `json:"tools"`
	Model        *string  `json:"model"`
	Steps        int      `json:"steps"`
	Seconds      int64    `json:"seconds"`
}

func (c *closing) addCalls() {
	n := len(c.turn.Calls)
	column := func(name string, of func(domain.PlannedCall) string) {
		values := make([]string, n)
		for i, call := range c.turn.Calls {
			values[i] = of(call)
		}

		c.args[name] = values
	}
	column("call_ids", func(p domain.PlannedCall) string { return p.ID })
	column("call_tools", func(p domain.PlannedCall) string { return p.ToolName })
	column("call_displays", func(p domain.PlannedCall) string { return p.DisplayName })
	column("call_arguments", func(p domain.PlannedCall) string { return p.Arguments })
	column("call_statuses", func(p domain.PlannedCall) string { status, _, _ := ledgerEntry(p); return string(status) })
	column("call_phases", func(p domain.PlannedCall) string { _, phase, _ := ledgerEntry(p); return phase })
	column("call_results", func(p domain.PlannedCall) string { _, _, result := ledgerEntry(p); return result })
	column("call_server_ids", func(p domain.PlannedCall) string { return p.ServerCallID })
	column("call_members", func(p domain.PlannedCall) string { return p.ServerMembers })
	column("call_claimants", func(p domain.PlannedCall) string { return p.Claimant })

	c.args["lease"] = domain.CallLease
	c.parts += addCalls

	var (
		questions []askedQuestion
		loops     []reservedLoop
	)

	for i, call := range c.turn.Calls {
		c.claims = c.claims || call.Claimant != ""
		if call.Questions != nil {
			now := time.Now().UTC()
			times := call.Policy.Times(now)
			c.asked[i] = &domain.PendingQuestionRef{
				QuestionID:    domain.NewID(),
				AskedAt:       now,
				ExpiresAt:     times.ExpiresAt,
				DefaultPolicy: times.DefaultPolicy,
				SourceLoop:    call.Source,
			}
			questions = append(questions, askedQuestion{
				ID: c.asked[i].QuestionID, Call: call.ID, Questions: call.Questions, AskedAt: c.asked[i].AskedAt, Source: call.Source,
				Guards: call.Guards, Allows: call.Allows, Files: call.Files,
				ExpiresAt: times.ExpiresAt, Policy: times.DefaultPolicy, EscalateAt: times.EscalateAt,
			})
		}

		if f := call.Fork; f != nil {
			loops = append(loops, reservedLoop{
				ID: call.ID, Task: f.TaskID, Background: f.Background, Depth: f.Depth, Type: f.AgentType, Description: f.Description,
				Instructions: f.Instructions, Prompt: f.Prompt, Tools: f.Tools, Model: f.Model, Steps: f.MaxSteps,
				Seconds: int64(f.Time.Seconds()),
			})
		}
	}

	if questions != nil {
		c.parts += addQuestions
		c.args["questions"] = questions
	}

	if loops != nil {
		c.parts += addLoops
		c.args["forks"] = loops
	}
}

// columns, from and fields are what the statement returns of calls that it claims:
// what ClaimCall does.
func (c *closing) columns() string {
	if !c.claims {
		return ""
	}

	return `, alive.ok, now(), c.mode, c.headless OR l.task_id IS NOT NULL, ` + captureDueIn(
		"@session",
	) + `, ` + LoopColumns + `, ` + sessions.WorkColumns
}

func (c *closing) from() string {
	if !c.claims {
		return ""
	}

	return ` CROSS JOIN alive CROSS JOIN chat c CROSS JOIN locked s LEFT JOIN loops l ON l.id = @loop`
}

func (c *closing) fields() []any {
	if !c.claims {
		return nil
	}

	return slices.Concat(
		[]any{&c.alive, &c.startedAt, &c.mode, &c.headless, &c.captureDue},
		LoopFields(&c.loop),
		sessions.WorkFields(&c.session),
	)
}

// claimed returns the calls that are running now.
func (c *closing) claimed() []domain.LedgerCall {
	if !c.alive {
		return nil
	}

	var claimed []domain.LedgerCall

	for _, call := range c.turn.Calls {
		if call.Claimant != "" {
			claimed = append(claimed, domain.LedgerCall{
				ID: call.ID, SessionID: c.turn.SessionID, ChatID: c.turn.ChatID, EntryID: c.turn.EntryID, LoopID: c.turn.LoopID,
				ToolName: call.ToolName, Arguments: call.Arguments, Attempt: 1, Mode: c.mode, Headless: c.headless, StartedAt: c.startedAt,
				Loop: c.loop, Session: c.session, CaptureDue: c.captureDue,
			})
		}
	}

	return claimed
}

// emit adds the events of the turn: its text as far as it is not published, its
// calls, and its end.
func (c *closing) emit(events *pg.Events) error {
	emitUnpublished(events, c.turn.Unpublished)

	for i, call := range c.turn.Calls {
		if err := emitCall(events, c.turn, call, c.asked[i]); err != nil {
			return err
		}
	}

	return c.emitEnd(events)
}

func (c *closing) emitEnd(events *pg.Events) error {
	return events.Emit(c.turn.SessionID, c.turn.ChatID, domain.EventTurnEnd, domain.TurnEnded{
		TurnID: c.turn.EntryID, Status: c.turn.Status, Usage: c.turn.Usage.Shown(),
		DurationMS: c.turn.Duration.Milliseconds(), FailureReason: c.turn.FailureReason,
	})
}

// emitUnpublished publishes the text that the turn's stream could not.
func emitUnpublished(events *pg.Events, deltas []domain.UnpublishedDelta) {
	for _, d := range deltas {
		if d.Maybe {
			events.AddMaybePublished(d.Event, d.After)
		} else {
			events.Add(d.Event)
		}
	}
}

// ledgerEntry returns how a call enters the ledger: to be run, put to the user, or
// settled already.
func ledgerEntry(call domain.PlannedCall) (status domain.ToolCallStatus, phase, result string) {
	switch {
	case call.Questions != nil:
		return domain.CallAwaitingAnswer, domain.PhaseQueued, ""
	case call.Settled != nil:
		return call.Settled.Status, domain.PhaseFinished, call.Settled.Result
	default:
		return domain.CallPending, domain.PhaseQueued, ""
	}
}

// emitCall adds the event of a call that was asked for, and that of its result when
// it is settled already.
func emitCall(events *pg.Events, turn domain.ClosingTurn, call domain.PlannedCall, asked *domain.PendingQuestionRef) error {
	shown := domain.CallPending
	if call.Questions != nil {
		shown = domain.CallAwaitingAnswer
	}

	if err := events.Emit(turn.SessionID, turn.ChatID, domain.EventTurnPatch, domain.AddToolCallPatch{
		TurnID: turn.EntryID, PatchType: domain.PatchAddToolCall,
		ToolCall: domain.PatchedToolCall{
			ID: call.ID, ToolName: call.ToolName, DisplayName: call.DisplayName, Arguments: call.Arguments, Status: shown,
			PendingQuestionRef: asked,
		},
	}); err != nil || call.Settled == nil {
		return err
	}

	return events.Emit(turn.SessionID, turn.ChatID, domain.EventTurnPatch, domain.ToolResultPatch{
		TurnID: turn.EntryID, PatchType: domain.PatchToolResult, ToolCallID: call.ID,
		Result: call.Settled.Result, Status: call.Settled.Status,
	})
}
