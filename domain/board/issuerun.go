package board

import (
	"fmt"
	"strings"
	"time"

	"everloop/domain"
)

// IssueRunStatus is the progress of an agent's run on an issue.
type IssueRunStatus string

// The statuses of an issue run.
const (
	IssueRunQueued     IssueRunStatus = "queued"     // the agent works on its maximum of issues
	IssueRunDispatched IssueRunStatus = "dispatched" // its session is being created
	IssueRunRunning    IssueRunStatus = "running"
	IssueRunWaiting    IssueRunStatus = "waiting" // for an answer
	IssueRunCompleted  IssueRunStatus = "completed"
	IssueRunFailed     IssueRunStatus = "failed"
	IssueRunCancelled  IssueRunStatus = "cancelled"
)

// Bounds of issue runs.
const (
	MaxIssueRuns    = 1_000  // of an issue
	MaxRunRounds    = 50     // messages that one run sends
	MaxRunReport    = 20_000 // runes of an agent's comment
	maxComments     = 50     // newest comments in the message to an agent
	maxRunesComment = 4_000  // of one comment
	maxRunesIssue   = 60_000 // of the description
)

// Trigger kinds of issue runs.
const (
	TriggerAssign  = "assign"
	TriggerComment = "comment"
	TriggerManual  = "manual"
	TriggerRetry   = "retry"
)

// Reason codes of issue runs, in addition to finish reasons of chats and error codes.
const (
	ReasonAgentGone   = "agent_unavailable"
	ReasonStopped     = "stopped"
	ReasonReassigned  = "reassigned"
	ReasonIssueClosed = "issue_closed"
	ReasonManyRounds  = "too_many_rounds"
)

// IssueRun is the work of an agent on an issue.
type IssueRun struct {
	ID                  string            `json:"id" doc:"The run." example:"01a1ff63-40a1-7c55-a62e-d84c269739b6"`
	IssueID             string            `json:"issue_id" doc:"The issue."`
	AgentID             string            `json:"agent_id" doc:"The agent instance."`
	RuntimeID           string            `json:"runtime_id" doc:"The runtime of the agent instance." example:"builtin"`
	SessionID           *domain.SessionID `json:"session_id" nullable:"true" doc:"Its session; null: there is none yet."`
	Status              IssueRunStatus    `json:"status" enum:"queued,dispatched,running,waiting,completed,failed,cancelled" doc:"Its status."`
	Trigger             IssueRunTrigger   `json:"trigger" doc:"What began it."`
	Attempt             int               `json:"attempt" doc:"Which attempt it is." example:"1"`
	MaxAttempts         int               `json:"max_attempts" doc:"How many attempts there are." example:"2"`
	ParentRunID         *string           `json:"parent_run_id" nullable:"true" doc:"The run of which it is another attempt; null: none."`
	FailureReason       *string           `json:"failure_reason" nullable:"true" doc:"Why it failed, in words; null: it did not."`
	ReasonCode          *string           `json:"reason_code" nullable:"true" doc:"Why it has its status: an error code, a finish reason, or agent_unavailable, stopped, reassigned, issue_closed, session_deleted, question_not_answered, too_many_rounds; null: there is nothing to say."`
	Error               *string           `json:"error" nullable:"true" doc:"The same as failure_reason."`
	Result              *string           `json:"result" nullable:"true" doc:"The agent's last text; null: none."`
	CreatedAt           time.Time         `json:"created_at" doc:"Creation time."`
	DispatchedAt        *time.Time        `json:"dispatched_at" nullable:"true" doc:"Time at which its turn came; null: it did not."`
	StartedAt           *time.Time        `json:"started_at" nullable:"true" doc:"Time at which the agent was sent the issue; null: not yet."`
	FinishedAt          *time.Time        `json:"finished_at" nullable:"true" doc:"Time of its end; null: it is not over."`
	Usage               []RunUsage        `json:"usage" nullable:"false" doc:"What it has used, by model."`
	CoalescedCommentIDs []string          `json:"coalesced_comment_ids" nullable:"false" doc:"Comments that came while it worked, and that it got afterwards."`
}

// IssueRunTrigger is the trigger of an issue run.
type IssueRunTrigger struct {
	Kind      string  `json:"kind" enum:"assign,comment,manual,retry" doc:"What it was."`
	CommentID *string `json:"comment_id,omitempty" doc:"The comment."`
	Summary   string  `json:"summary" doc:"The same in words." example:"Assigned by Ann"`
}

// RunUsage is a run's usage of one model.
type RunUsage struct {
	Provider         string      `json:"provider" doc:"Where the model is." example:"gateway"`
	Model            string      `json:"model" doc:"The model; empty: not known."`
	InputTokens      int64       `json:"input_tokens" doc:"Tokens of prompts." example:"1200"`
	OutputTokens     int64       `json:"output_tokens" doc:"Tokens of answers." example:"340"`
	CacheReadTokens  int64       `json:"cache_read_tokens" doc:"Tokens of prompts that came from a cache." example:"0"`
	CacheWriteTokens int64       `json:"cache_write_tokens" doc:"Tokens that were written to a cache." example:"0"`
	Cost             domain.Cost `json:"cost_usd,omitempty" doc:"The cost by the prices of the models; left out: none has a price."`
}

// IssueUsage is the usage of all runs of an issue.
type IssueUsage struct {
	RunCount int `json:"run_count" doc:"How many runs there were." example:"2"`
	TokenCounts
	Cost      domain.Cost  `json:"cost_usd" doc:"Cost of what has a known one."`
	Uncosted  TokenCounts  `json:"uncosted" doc:"Tokens whose cost is not known."`
	ByModel   []ModelUsage `json:"by_model" nullable:"false" doc:"The same by model."`
	ByAgent   []AgentUsage `json:"by_agent" nullable:"false" doc:"The same by agent instance."`
	FirstAt   *time.Time   `json:"first_at" nullable:"true" doc:"Start of the first run; null: none has begun."`
	LastAt    *time.Time   `json:"last_at" nullable:"true" doc:"End of the last run that is over; null: none is."`
	DurationS float64      `json:"duration_s" doc:"Seconds that its runs took together, waiting included." example:"63.2"`
}

// TokenCounts counts tokens.
type TokenCounts struct {
	InputTokens      int64 `json:"input_tokens" doc:"Tokens of prompts." example:"1200"`
	OutputTokens     int64 `json:"output_tokens" doc:"Tokens of answers." example:"340"`
	CacheReadTokens  int64 `json:"cache_read_tokens" doc:"Tokens of prompts that came from a cache." example:"0"`
	CacheWriteTokens int64 `json:"cache_write_tokens" doc:"Tokens that were written to a cache." example:"0"`
}

// Add sums two counts.
func (c TokenCounts) Add(d TokenCounts) TokenCounts {
	return TokenCounts{
		InputTokens: c.InputTokens + d.InputTokens, OutputTokens: c.OutputTokens + d.OutputTokens,
		CacheReadTokens: c.CacheReadTokens + d.CacheReadTokens, CacheWriteTokens: c.CacheWriteTokens + d.CacheWriteTokens,
	}
}

// ModelUsage is the usage of one model.
type ModelUsage struct {
	Model string `json:"model" doc:"The model; empty: not known."`
	TokenCounts
}

// AgentUsage is the usage of one agent instance's runs.
type AgentUsage struct {
	AgentID  string `json:"agent_id" doc:"The agent instance."`
	RunCount int    `json:"run_count" doc:"Its runs." example:"1"`
	TokenCounts
}

// IssueRunPlan lists the actions to take after a change of an issue was stored.
type IssueRunPlan struct {
	Agents []string         // instances that can start another run
	Stop   []domain.RunChat // chats to stop
	Answer []string         // runs that a comment can answer
	Notify []string         // workflows that wait for the end of the runs of an issue
}

// Add joins the actions of two plans.
func (p *IssueRunPlan) Add(other IssueRunPlan) {
	p.Agents = append(p.Agents, other.Agents...)
	p.Stop = append(p.Stop, other.Stop...)
	p.Answer = append(p.Answer, other.Answer...)
	p.Notify = append(p.Notify, other.Notify...)
}

// MessageID returns the client_message_id of the message of a round of a run.
func MessageID(runID string, round int) string { return fmt.Sprintf("issue-run/%s/%d", runID, round) }

// ClaimedIssueRun is a run to execute.
type ClaimedIssueRun struct {
	RunID       string
	IssueID     string
	Ended       bool // there is no work left
	Begun       bool // its message was sent
	AgentID     string
	OwnerID     string // of the agent and of the session
	SessionID   domain.SessionID
	WorkspaceID string
	Title       string // of the session
	Message     string
	Round       int // of its messages, from 1
}

// AskedInRun is a question that a run waits for.
type AskedInRun struct {
	RunID      string
	OwnerID    string
	SessionID  domain.SessionID
	QuestionID string
	ToolCallID string
	Questions  []byte // JSON
	Permission bool   // it asks for a permission, which the session's owner grants
	Posted     bool   // as a comment
	CommentID  string // of a member, after the question; empty: none yet
	Answer     string
}

// IssueBrief is the content of the message about an issue to an agent.
type IssueBrief struct {
	Workspace   string
	Identifier  string
	Title       string
	Description string
	Squad       *Squad
	Mates       []SquadMate // members of the squad without the leader
	Note        string      // of the user or agent who handed it over
	Comments    []BriefComment
	Continues   bool   // the agent has worked on the issue in its session
	Failure     string // of the previous attempt; empty: none
}

// SquadMate is a member of a squad as described to its leader.
type SquadMate struct {
	Name string
	Type ActorType
	Role string // empty: not set
}

// BriefComment is a comment as an agent reads it.
type BriefComment struct {
	Author  string
	Content string
}

// Message returns the text that is sent to the agent's session.
func (b IssueBrief) Message() string {
	var parts []string
	if b.Continues {
		parts = append(parts, fmt.Sprintf("Issue %s of the workspace %q needs you again.", b.Identifier, b.Workspace))
	} else {
		parts = append(parts, fmt.Sprintf("You work on issue %s of the workspace %q.", b.Identifier, b.Workspace), "# "+b.Title)
		if text := strings.TrimSpace(b.Description); text != "" {
			parts = append(parts, domain.FirstRunes(text, maxRunesIssue))
		}

		if b.Squad != nil {
			parts = append(parts, fmt.Sprintf("You lead the squad %q.", b.Squad.Name))
			if b.Squad.Instructions != "" {
				parts = append(parts, b.Squad.Instructions)
			}

			if len(b.Mates) > 0 {
				parts = append(parts, matesText(b.Mates))
			}
		}
	}

	if b.Failure != "" {
		parts = append(parts, "The attempt before failed: "+b.Failure+". See what it has done, and go on from there.")
	}

	if b.Note != "" {
		parts = append(parts, "## Note of who handed it over", b.Note)
	}

	if comments := b.Comments; len(comments) > 0 {
		parts = append(parts, "## Comments")
		for _, c := range comments[max(0, len(comments)-maxComments):] {
			parts = append(parts, c.Author+": "+domain.FirstRunes(c.Content, maxRunesComment))
		}
	}

	if !b.Continues {
		parts = append(parts, "End with a short report of what was done: it becomes a comment on the issue. "+
			"What only a person can decide, ask with AskUserQuestion: it is asked in a comment, and answered there.")
	}

	return strings.Join(parts, "\n\n")
}

// matesText lists the members of a squad.
func matesText(mates []SquadMate) string {
	text := "In the squad are:"

	for _, m := range mates {
		text += fmt.Sprintf("\n- %s (%s)", m.Name, m.Type)
		if m.Role != "" {
			text += ": " + m.Role
		}
	}

	return text
}
