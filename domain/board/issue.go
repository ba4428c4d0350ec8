package board

import (
	"encoding/json"
	"time"
)

// IssueStatus is the progress of an issue.
type IssueStatus string

// The statuses of an issue. Done and cancelled issues are closed.
const (
	IssueBacklog    IssueStatus = "backlog"
	IssueTodo       IssueStatus = "todo"
	IssueInProgress IssueStatus = "in_progress"
	IssueInReview   IssueStatus = "in_review"
	IssueDone       IssueStatus = "done"
	IssueBlocked    IssueStatus = "blocked"
	IssueCancelled  IssueStatus = "cancelled"
)

// Closed reports whether the issue needs no more work.
func (s IssueStatus) Closed() bool { return s == IssueDone || s == IssueCancelled }

// IssuePriority is the urgency of an issue.
type IssuePriority string

// The priorities.
const (
	PriorityUrgent IssuePriority = "urgent"
	PriorityHigh   IssuePriority = "high"
	PriorityMedium IssuePriority = "medium"
	PriorityLow    IssuePriority = "low"
	PriorityNone   IssuePriority = "none"
)

// Issue is a piece of work in a production workspace.
type Issue struct {
	ID             string          `json:"id" db:"id" doc:"The issue." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	WorkspaceID    string          `json:"workspace_id" db:"workspace_id" doc:"Its production workspace."`
	Number         int             `json:"number" db:"number" doc:"Its number in the workspace." example:"12"`
	Identifier     string          `json:"identifier" db:"identifier" doc:"The workspace's prefix and its number." example:"WEB-12"`
	Title          string          `json:"title" db:"title" doc:"Its title." example:"Add a search page"`
	Description    string          `json:"description" db:"description" doc:"The description."`
	Status         IssueStatus     `json:"status" db:"status" enum:"backlog,todo,in_progress,in_review,done,blocked,cancelled" doc:"Its status."`
	Priority       IssuePriority   `json:"priority" db:"priority" enum:"urgent,high,medium,low,none" doc:"Its priority."`
	AssigneeType   *ActorType      `json:"assignee_type" db:"assignee_type" nullable:"true" enum:"member,agent,squad" doc:"What it is assigned to; null: nothing."`
	AssigneeID     *string         `json:"assignee_id" db:"assignee_id" nullable:"true" doc:"The user, agent instance or squad; null: none."`
	Assignee       *Assignee       `json:"assignee" db:"assignee" doc:"How the assignee is shown; null: there is none."`
	CreatorType    ActorType       `json:"creator_type" db:"creator_type" enum:"member,agent,system" doc:"What created it."`
	CreatorID      string          `json:"creator_id" db:"creator_id" doc:"Who created it."`
	ParentIssueID  *string         `json:"parent_issue_id" db:"parent_issue_id" nullable:"true" doc:"The issue that it is a part of; null: none."`
	Project        *string         `json:"project" db:"project" nullable:"true" doc:"The project; null: none." example:"search"`
	Position       float64         `json:"position" db:"position" doc:"Its place in lists, smallest first." example:"12"`
	Stage          *string         `json:"stage" db:"stage" nullable:"true" doc:"The stage of its parent that it belongs to; null: none." example:"build"`
	StartDate      *time.Time      `json:"start_date" db:"start_date" nullable:"true" doc:"When it should begin; null: not said."`
	DueDate        *time.Time      `json:"due_date" db:"due_date" nullable:"true" doc:"When it should be done; null: not said."`
	Labels         []string        `json:"labels" db:"labels" nullable:"false" doc:"The labels."`
	Metadata       json.RawMessage `json:"metadata" db:"metadata" doc:"What clients keep with it; the service does not interpret it."`
	Revision       int             `json:"revision" db:"revision" doc:"Grows with each change." example:"1"`
	LastActivityAt time.Time       `json:"last_activity_at" db:"last_activity_at" doc:"Time of the last change, comment or run."`
	FirstStartedAt *time.Time      `json:"first_started_at" db:"first_started_at" nullable:"true" doc:"Time at which it first was in progress; null: never."`
	ClosedAt       *time.Time      `json:"closed_at" db:"closed_at" nullable:"true" doc:"Time at which it was done or cancelled; null: it is open."`
	CreatedAt      time.Time       `json:"created_at" db:"created_at" doc:"Creation time."`
	UpdatedAt      time.Time       `json:"updated_at" db:"updated_at" doc:"Time of the last change of its fields."`
	StartedBy      *string         `json:"started_by,omitempty" db:"started_by" doc:"The scheduled task (task/<id>) or trigger (trigger/<id>) that created it; left out: neither." example:"task/01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	ActiveRun      *ActiveRun      `json:"active_run" db:"active_run" doc:"The run that works on it; null: none does."`
}

// Assignee is an assignee as displayed.
type Assignee struct {
	Name   string `json:"name" doc:"The name." example:"Ann"`
	Avatar string `json:"avatar" doc:"A picture's URL, or an agent's icon; empty: none."`
}

// ActiveRun is a summary of the run that works on an issue.
type ActiveRun struct {
	ID     string         `json:"id" doc:"The run."`
	Status IssueRunStatus `json:"status" enum:"queued,dispatched,running,waiting" doc:"Its status."`
}

// IssueFields are the fields of an issue; nil fields are unchanged.
type IssueFields struct {
	Title       *string
	Description *string
	Status      *IssueStatus
	Priority    *IssuePriority
	Labels      []string // nil: unchanged
	Metadata    json.RawMessage
	Position    *float64

	Assignee *AssigneeRef // empty: unassigned

	Parent    Change[string]
	Project   Change[string]
	Stage     Change[string]
	StartDate Change[time.Time]
	DueDate   Change[time.Time]

	ExpectedRevision *int
	SuppressRun      bool
	HandoffNote      string

	// Of an issue that a task or a trigger creates: its id, what starts it, such as task/<id>, and
	// the workflow that is signalled when its runs have ended; empty: none.
	ID, StartedBy, Waiter string
}

// Change is a new value of a field that can be empty.
type Change[T any] struct {
	Set   bool
	Value *T
}

// AssigneeRef identifies an assignee by id or name. Both empty: unassigned.
type AssigneeRef struct {
	Type ActorType // empty: any type with the id or name
	ID   string
	Name string
}

// None reports whether it identifies no assignee.
func (a AssigneeRef) None() bool { return a.ID == "" && a.Name == "" }

// IssueAction is the kind of an issue's activity.
type IssueAction string

// The actions.
const (
	ActionCreated            IssueAction = "created"
	ActionStatusChanged      IssueAction = "status_changed"
	ActionPriorityChanged    IssueAction = "priority_changed"
	ActionAssigneeChanged    IssueAction = "assignee_changed"
	ActionTitleChanged       IssueAction = "title_changed"
	ActionDescriptionUpdated IssueAction = "description_updated"
	ActionDueDateChanged     IssueAction = "due_date_changed"
	ActionLabelChanged       IssueAction = "label_changed"
	ActionRunStarted         IssueAction = "run_started"
	ActionRunFinished        IssueAction = "run_finished"
)

// Activity is one change of an issue.
type Activity struct {
	Action IssueAction
	From   any
	To     any
}

// Differences returns the activities between two states of an issue.
func Differences(before, after Issue) (all []Activity) {
	add := func(action IssueAction, from, to any) { all = append(all, Activity{action, from, to}) }
	if before.Title != after.Title {
		add(ActionTitleChanged, before.Title, after.Title)
	}

	if before.Description != after.Description {
		add(ActionDescriptionUpdated, nil, nil)
	}

	if before.Status != after.Status {
		add(ActionStatusChanged, before.Status, after.Status)
	}

	if before.Priority != after.Priority {
		add(ActionPriorityChanged, before.Priority, after.Priority)
	}

	if !same(before.AssigneeType, after.AssigneeType) || !same(before.AssigneeID, after.AssigneeID) {
		add(ActionAssigneeChanged, before.assigned(), after.assigned())
	}

	if !sameMoment(before.DueDate, after.DueDate) {
		add(ActionDueDateChanged, before.DueDate, after.DueDate)
	}

	if !sameTexts(before.Labels, after.Labels) {
		add(ActionLabelChanged, before.Labels, after.Labels)
	}

	return all
}

func (i Issue) assigned() any {
	if i.AssigneeID == nil || i.AssigneeType == nil {
		return nil
	}

	return map[string]string{"type": string(*i.AssigneeType), "id": *i.AssigneeID}
}

func same[T comparable](a, b *T) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

func sameMoment(a, b *time.Time) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Equal(*b)
}

func sameTexts(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}

	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}

	return true
}

// Comment is a comment of a member or an agent on an issue.
type Comment struct {
	ID          string     `json:"id" db:"id" doc:"The comment." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	IssueID     string     `json:"issue_id" db:"issue_id" doc:"The issue."`
	AuthorType  ActorType  `json:"actor_type" db:"author_type" enum:"member,agent,system" doc:"What wrote it."`
	AuthorID    string     `json:"actor_id" db:"author_id" doc:"Who wrote it."`
	Content     string     `json:"content" db:"content" doc:"The text." example:"Please use the existing index."`
	ParentID    *string    `json:"parent_id" db:"parent_id" nullable:"true" doc:"The comment that it replies to; null: none."`
	SourceRunID *string    `json:"source_run_id" db:"source_run_id" nullable:"true" doc:"The run that wrote it; null: none."`
	CreatedAt   time.Time  `json:"created_at" db:"created_at" doc:"Creation time."`
	UpdatedAt   time.Time  `json:"updated_at" db:"updated_at" doc:"Time of the last change."`
	ResolvedAt  *time.Time `json:"resolved_at" db:"resolved_at" nullable:"true" doc:"Of an agent's question: when it was answered; null: it is open, or no question."`
}

// NewComment is a comment to store.
type NewComment struct {
	Content     string
	ParentID    *string
	SuppressRun bool
}

// TimelineEntry is a comment, a change or a run of an issue.
type TimelineEntry struct {
	Type      string    `json:"type" db:"type" enum:"comment,activity,run" doc:"What it is."`
	ID        string    `json:"id" db:"id" doc:"Its id."`
	ActorType ActorType `json:"actor_type" db:"actor_type" enum:"member,agent,system" doc:"What did it."`
	ActorID   string    `json:"actor_id" db:"actor_id" doc:"Who did it; empty: the service."`
	CreatedAt time.Time `json:"created_at" db:"created_at" doc:"When it was."`

	Content     *string    `json:"content,omitempty" db:"content" doc:"Of a comment: the text."`
	ParentID    *string    `json:"parent_id" db:"parent_id" nullable:"true" doc:"Of a comment: what it replies to; null: nothing."`
	UpdatedAt   *time.Time `json:"updated_at,omitempty" db:"updated_at" doc:"Of a comment: time of the last change."`
	ResolvedAt  *time.Time `json:"resolved_at" db:"resolved_at" nullable:"true" doc:"Of an agent's question: when it was answered; null: it was not, or it is none."`
	Attachments []string   `json:"attachments" db:"-" nullable:"false" doc:"Always empty: comments are text."`
	SourceRunID *string    `json:"source_run_id" db:"source_run_id" nullable:"true" doc:"Of a comment: the run that wrote it; null: no run."`

	Action  *IssueAction    `json:"action,omitempty" db:"action" enum:"created,status_changed,priority_changed,assignee_changed,title_changed,description_updated,due_date_changed,label_changed,run_started,run_finished" doc:"Of an activity: what changed."`
	Details json.RawMessage `json:"details,omitempty" db:"details" doc:"Of an activity: {from, to}."`

	RunID  *string         `json:"run_id,omitempty" db:"run_id" doc:"Of a run: its id."`
	Status *IssueRunStatus `json:"status,omitempty" db:"status" enum:"queued,dispatched,running,waiting,completed,failed,cancelled" doc:"Of a run: its status."`
}

// TimelineQuery selects a page of a timeline: the newest entries, those before a cursor
// or those after one.
type TimelineQuery struct {
	Before, After string // ids of entries
	Kinds         []string
	Limit         int
}

// Timeline is a page of a timeline, the oldest entry first.
type Timeline struct {
	Items     []TimelineEntry
	Before    *string // nil: there are no older entries
	After     *string // nil: the page is empty
	Truncated TimelineTruncated
}

// TimelineTruncated describes the older entries that the page omits.
type TimelineTruncated struct {
	Comments bool `json:"comments" doc:"Whether there are older comments."`
	Activity bool `json:"activity" doc:"Whether there are older activities, or they were removed."`
}
