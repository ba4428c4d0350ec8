package dagruns

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/dagrun"
)

// resultOf reads how the work of a running unit ended.
func resultOf(ctx context.Context, tx pgx.Tx, u dagrun.Unit) (dagrun.Result, bool, error) {
	if u.ChildID != "" {
		return endedSubflow(ctx, tx, u)
	}

	return endedChatOf(ctx, tx, u)
}

// endedChat is a chat of a unit that has ended, with its first tool call and its last
// answer.
type endedChat struct {
	reason        *domain.FinishReason // nil: the chat is gone
	code, message string
	usage         domain.Usage
	scripted      bool
	callTool      *string
	callStatus    *domain.ToolCallStatus
	callResult    *string
	blocks        []domain.Block
}

func endedChatOf(ctx context.Context, tx pgx.Tx, u dagrun.Unit) (dagrun.Result, bool, error) {
	var chat endedChat

	into := []any{
		&chat.reason, &chat.code, &chat.message, &chat.scripted, &chat.callTool, &chat.callStatus, &chat.callResult, &chat.blocks,
	}

	err := tx.QueryRow(ctx, `
		SELECT c.finish_reason, coalesce(c.error_code, ''), coalesce(c.error_message, ''),
		       coalesce(s.setup ? 'script', false), t.tool_name, t.status, t.result, e.blocks, `+usedOf("c")+`
		FROM   dag_run_nodes n
		LEFT   JOIN chats c ON c.id = n.chat_id
		LEFT   JOIN sessions s ON s.id = c.session_id
		LEFT   JOIN LATERAL (
			SELECT tool_name, status, result FROM tool_calls WHERE session_id = c.session_id AND chat_id = c.id ORDER BY id LIMIT 1) t
			ON s.setup ? 'script'
		LEFT   JOIN LATERAL (
			SELECT blocks FROM entries
			WHERE  chat_id = c.id AND role = 'assistant' AND loop_id = 'root' AND status = 'completed' ORDER BY sequence DESC
			    LIMIT 1) e ON true
		WHERE  n.id = $1 AND (c.id IS NULL OR c.state = 'ended')`, u.ID).Scan(append(into, usedFields(&chat.usage)...)...)
	if errors.Is(err, pgx.ErrNoRows) {
		return dagrun.Result{}, false, nil
	}

	return chat.result(), err == nil, err
}

func (c endedChat) result() dagrun.Result {
	out := dagrun.Result{Usage: c.usage}
	if c.reason == nil {
		out.Failure = &dagrun.NodeFailure{Code: dagrun.CodeSessionDeleted, Message: "its session was deleted"}
		return out
	}

	if end := domain.EndOfRun(*c.reason, c.code, c.message, false); end.Status != domain.RunCompleted {
		out.Failure = &dagrun.NodeFailure{Code: end.Reason, Message: end.Error}
		return out
	}

	if !c.scripted {
		for _, b := range c.blocks {
			if b.Type == domain.BlockText {
				out.Text += b.Content
			}
		}

		return out
	}

	switch {
	case c.callStatus == nil || c.callResult == nil:
		out.Failure = &dagrun.NodeFailure{Code: dagrun.CodeToolFailed, Message: "the tool was not called"}
	case *c.callStatus != domain.CallDone:
		out.Failure = &dagrun.NodeFailure{Code: dagrun.CodeToolFailed, Message: shorten(*c.callResult)}
	case *c.callTool == askTool:
		out.Text = answerOf(*c.callResult)
	default:
		out.Text = *c.callResult
	}

	return out
}

// askTool is the tool that puts a question to the user.
const askTool = "AskUserQuestion"

// answerOf returns the answer to a single question: what was written, else what was chosen.
func answerOf(result string) string {
	var given struct {
		Answers []struct {
			Selected []string `json:"selected"`
			Custom   string   `json:"custom"`
		} `json:"answers"`
	}
	if json.Unmarshal([]byte(result), &given) != nil || len(given.Answers) == 0 {
		return result
	}

	first := given.Answers[0]
	if first.Custom != "" || len(first.Selected) == 0 {
		return first.Custom
	}

	return first.Selected[0]
}

func shorten(text string) string {
	const most = 2000
	if len(text) <= most {
		return text
	}

	return domain.CleanText(text[:most])
}

func endedSubflow(ctx context.Context, tx pgx.Tx, u dagrun.Unit) (out dagrun.Result, ended bool, err error) {
	var (
		status  dagrun.Status
		outputs *string
		f       dagrun.NodeFailure
	)

	into := append([]any{&status, &outputs, &f.Code, &f.Message}, usedFields(&out.Usage)...)

	err = tx.QueryRow(ctx, `
		SELECT coalesce(r.status, 'failed'), r.outputs, coalesce(r.error_code, 'subflow_failed'),
		       coalesce(r.error_message, 'its run was deleted'), `+usedByRun()+`
		FROM   dag_run_nodes n LEFT JOIN dag_runs r ON r.id = n.child_id
		WHERE  n.id = $1 AND (r.id IS NULL OR r.finished_at IS NOT NULL)`, u.ID).Scan(into...)
	if errors.Is(err, pgx.ErrNoRows) {
		return out, false, nil
	}

	switch status {
	case dagrun.Completed:
		out.JSON = raw(outputs)
	case dagrun.Cancelled:
		out.Failure = &dagrun.NodeFailure{Code: dagrun.CodeSubflowFailed, Message: "its run was cancelled"}
	default:
		out.Failure = &f
	}

	return out, err == nil, err
}
