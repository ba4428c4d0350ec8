package board

import "time"

// IssueQuery selects issues of a workspace; empty fields match everything.
type IssueQuery struct {
	Text              string
	Statuses          []string
	Priorities        []string
	AssigneeTypes     []string
	AssigneeIDs       []string
	IncludeNoAssignee bool // in addition to the issues of the assignees
	CreatorIDs        []string
	Projects          []string
	Labels            []string // it has one of them
	ParentIDs         []string
	TopLevelOnly      bool
	OpenOnly          bool
	UpdatedAfter      *time.Time
	DueBefore         *time.Time

	Sort       IssueSort
	Descending bool
	Limit      int
	Offset     int
}

// IssueSort is the sort field of a list of issues.
type IssueSort string

// The sort fields of issues. Urgent is the highest priority.
const (
	SortPosition     IssueSort = "position"
	SortPriority     IssueSort = "priority"
	SortCreated      IssueSort = "created_at"
	SortUpdated      IssueSort = "updated_at"
	SortDue          IssueSort = "due_date"
	SortLastActivity IssueSort = "last_activity_at"
	SortTitle        IssueSort = "title"
)

// IssueGrouping is the field that issues are grouped by.
type IssueGrouping string

// The groupings.
const (
	GroupAssignee IssueGrouping = "assignee"
	GroupStatus   IssueGrouping = "status"
	GroupPriority IssueGrouping = "priority"
	GroupProject  IssueGrouping = "project"
)

// MaxIssueGroups bounds the groups of an answer; it contains the largest ones.
const MaxIssueGroups = 200

// IssueGroup is the issues with the same value of a field.
type IssueGroup struct {
	ID    string   `json:"id" doc:"Its key as group_key takes it." example:"status:todo"`
	Key   GroupKey `json:"key" doc:"What its issues have in common."`
	Total int      `json:"total" doc:"How many issues it has." example:"3"`
	Items []Issue  `json:"items" nullable:"false" doc:"A page of its issues."`
}

// GroupKey is the common value of a group's issues.
type GroupKey struct {
	Type string  `json:"type" enum:"member,agent,squad,none,status,priority,project" doc:"The type of the assignee, or what is grouped by; none: nothing is assigned or said." example:"status"`
	ID   *string `json:"id" nullable:"true" doc:"The assignee, status, priority or project; null: none." example:"todo"`
	Name string  `json:"name" doc:"How it is shown." example:"todo"`
}

// ChildProgress is the progress of an issue's sub-issues. Cancelled ones count as done.
type ChildProgress struct {
	ParentIssueID string          `json:"parent_issue_id" db:"parent_issue_id" doc:"The issue."`
	Total         int             `json:"total" db:"total" doc:"How many parts it has." example:"3"`
	Done          int             `json:"done" db:"done" doc:"Parts that are done or cancelled." example:"1"`
	InProgress    int             `json:"in_progress" db:"in_progress" doc:"Parts in progress or in review." example:"1"`
	Blocked       int             `json:"blocked" db:"blocked" doc:"Parts that are blocked." example:"0"`
	ByStage       []StageProgress `json:"by_stage" db:"by_stage" nullable:"false" doc:"The same by stage, of parts that have one."`
}

// StageProgress is the progress of one stage's issues.
type StageProgress struct {
	Stage string `json:"stage" doc:"The stage." example:"build"`
	Total int    `json:"total" doc:"How many parts it has." example:"2"`
	Done  int    `json:"done" doc:"Parts that are done or cancelled." example:"1"`
}
