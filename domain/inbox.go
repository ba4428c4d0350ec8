package domain

import "time"

// InboxItem is a question that waits for a user, with what a list has to show.
type InboxItem struct {
	Kind       string      `json:"kind" enum:"question,permission"`
	SessionID  string      `json:"session_id"`
	Intent     string      `json:"intent" doc:"Of the session."`
	ChatID     string      `json:"chat_id"`
	QuestionID string      `json:"question_id"`
	ToolCallID string      `json:"tool_call_id" doc:"The answer names it."`
	Questions  any         `json:"questions" doc:"As in the arguments of AskUserQuestion."`
	SourceLoop *SourceLoop `json:"source_loop,omitempty" doc:"The sub-agent that asks."`
	AskedAt    time.Time   `json:"asked_at"`
}
