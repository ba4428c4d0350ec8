package conversation

// InsertCheckpoint is the statement that adds a checkpoint whose files are still to be
// captured. Its parameters are named @checkpoint, @session, @branch, @turn, @chat, @kind,
// @sequence and @label.
const InsertCheckpoint = `
	INSERT INTO checkpoints (id, session_id, branch_id, turn_id, chat_id, kind, sequence, label)
	VALUES (@checkpoint, @session, @branch, @turn, nullif(@chat, ''), @kind, @sequence, @label)`

// CaptureDue is a condition on the checkpoint k: its files can be captured now, as no
// tool of its turn is still to be run. Questions to the user write nothing.
//
// The scalar query with a limit, in place of NOT EXISTS, keeps the planner from
// hashing all tool calls.
const CaptureDue = `
	k.state = 'pending' AND (k.kind <> 'tool_batch' OR (
		SELECT 1 FROM tool_calls o WHERE o.entry_id = k.turn_id
		AND    (o.status = 'pending' OR o.status = 'awaiting_answer' AND o.tool_name <> 'AskUserQuestion') LIMIT 1) IS NULL)`

// captureDueIn reports whether files of a session must be captured before any
// more of them may change.
func captureDueIn(session string) string {
	return `EXISTS (SELECT 1 FROM checkpoints k WHERE k.session_id = ` + session + ` AND ` + CaptureDue + `)`
}

// captureUntakenIn is captureDueIn for what no process has in hand.
func captureUntakenIn(session string) string {
	return `EXISTS (SELECT 1 FROM checkpoints k WHERE k.session_id = ` + session + ` AND ` + CaptureDue + `
		AND (k.lease_until IS NULL OR k.lease_until < now()))`
}
