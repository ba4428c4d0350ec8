package domain

import "time"

// InboxItem is a question that waits for a user, with the fields that a list shows.
type InboxItem struct {
	Kind       string      `json:"kind" enum:"question,permission" doc:"The type."`
	SessionID  SessionID   `json:"session_id" doc:"The session." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	Intent     string      `json:"intent" doc:"Of the session." example:"Write the release notes of June"`
	ChatID     ChatID      `json:"chat_id" doc:"The chat." example:"01a1ff63-4015-7d95-9d72-d4880215462d"`
	QuestionID string      `json:"question_id" doc:"The question." example:"01a1ff63-403d-71f7-91f5-bf8d694cd459"`
	ToolCallID string      `json:"tool_call_id" doc:"The answer names it." example:"call_01a1ff63-403c-7525-87e0-24c27055af31"`
	Questions  any         `json:"questions" doc:"As in the arguments of AskUserQuestion."`
	SourceLoop *SourceLoop `json:"source_loop,omitempty" doc:"The sub-agent that asks."`
	AskedAt    time.Time   `json:"asked_at" doc:"Time of the question."`

	ExpiresAt     *time.Time     `json:"expires_at" nullable:"true" doc:"When its default policy answers it; null: it waits."`
	DefaultPolicy *DefaultPolicy `json:"default_policy" nullable:"true" enum:"choose,first_option,answer" doc:"What answers it then: answer is what a node of a DAG says. A permission request is denied."`
	Trigger       Trigger        `json:"trigger" enum:"user,answer,schedule,dag,issue,whatif,replay,api" doc:"What started its chat."`
	TaskID        *string        `json:"task_id" nullable:"true" doc:"The scheduled task of the chat; null: it has none."`
	RunID         *string        `json:"run_id" nullable:"true" doc:"The run of that task, of a DAG, or of an agent on an issue; null: it is part of none."`

	ProdSolutionID *string `json:"prod_solution_id" nullable:"true" doc:"The production solution of the DAG run; null: it is part of none."`
	NodeID         *string `json:"node_id" nullable:"true" doc:"The node of that run that asks."`
	WorkspaceID    *string `json:"workspace_id" nullable:"true" doc:"The production workspace of the issue; null: it is about none."`
	IssueID        *string `json:"issue_id" nullable:"true" doc:"The issue that the agent works on."`

	Escalated bool `json:"escalated" doc:"It is of another user's session, and was escalated to the caller."`
}
