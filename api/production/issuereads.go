package production

import (
	"context"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"

	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/domain/board"
)

// IssueFilters select issues, in a query. Lists are given by repeating the parameter.
type IssueFilters struct {
	Q                 string                `query:"q" maxLength:"1000" doc:"Text to find in titles and descriptions, literally, in any case; or an identifier." example:"search"`
	Status            []board.IssueStatus   `query:"status,explode" enum:"backlog,todo,in_progress,in_review,done,blocked,cancelled" maxItems:"20" doc:"Only these statuses; repeatable."`
	Priority          []board.IssuePriority `query:"priority,explode" enum:"urgent,high,medium,low,none" maxItems:"20" doc:"Only these priorities; repeatable."`
	AssigneeType      []board.ActorType     `query:"assignee_type,explode" enum:"member,agent,squad" maxItems:"20" doc:"Only those assigned to such; repeatable."`
	AssigneeID        []string              `query:"assignee_id,explode" maxItems:"100" maxLength:"128" doc:"Only those assigned to these; repeatable."`
	IncludeNoAssignee bool                  `query:"include_no_assignee" doc:"Besides those of the assignees, those that are not assigned."`
	CreatorID         []string              `query:"creator_id,explode" maxItems:"100" maxLength:"128" doc:"Only those created by these; repeatable."`
	Project           []string              `query:"project,explode" maxItems:"100" maxLength:"200" doc:"Only those of these projects; repeatable."`
	LabelIDs          []string              `query:"label_ids,explode" maxItems:"100" maxLength:"100" doc:"Only those with one of these labels; repeatable."`
	ParentID          []string              `query:"parent_id,explode" maxItems:"100" maxLength:"128" doc:"Only parts of these issues; repeatable."`
	TopLevelOnly      bool                  `query:"top_level_only" doc:"Only those that are part of no other."`
	OpenOnly          bool                  `query:"open_only" doc:"Only those that are neither done nor cancelled."`
	UpdatedAfter      time.Time             `query:"updated_after" doc:"Only those that were changed after this time." example:"2026-11-01T00:00:00Z"`
	DueBefore         time.Time             `query:"due_before" doc:"Only those that are due before this time." example:"2026-12-01T00:00:00Z"`
	Sort              board.IssueSort       `query:"sort" enum:"position,priority,created_at,updated_at,due_date,last_activity_at,title" default:"position" doc:"The order; of priorities urgent is the first."`
	Direction         string                `query:"direction" enum:"asc,desc" default:"asc" doc:"The direction of the order."`
	Limit             int                   `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"Maximum number of entries." example:"20"`
	Offset            int                   `query:"offset" minimum:"0" maximum:"1000000" default:"0" doc:"Number of entries to skip." example:"0"`
}

func (f IssueFilters) query() board.IssueQuery {
	return board.IssueQuery{
		Text:              f.Q,
		Statuses:          fields.Texts(f.Status),
		Priorities:        fields.Texts(f.Priority),
		AssigneeTypes:     fields.Texts(f.AssigneeType),
		AssigneeIDs:       f.AssigneeID,
		IncludeNoAssignee: f.IncludeNoAssignee,
		CreatorIDs:        f.CreatorID,
		Projects:          f.Project,
		Labels:            f.LabelIDs,
		ParentIDs:         f.ParentID,
		TopLevelOnly:      f.TopLevelOnly,
		OpenOnly:          f.OpenOnly,
		UpdatedAfter:      fields.Given(f.UpdatedAfter),
		DueBefore:         fields.Given(f.DueBefore),
		Sort:              f.Sort,
		Descending:        f.Direction == "desc",
		Limit:             f.Limit,
		Offset:            f.Offset,
	}
}

// issueFiltersBody are the same filters in a body.
type issueFiltersBody struct {
	Q                 string                `json:"q,omitempty" maxLength:"1000" doc:"Text to find in titles and descriptions, or an identifier." example:"search"`
	Status            []board.IssueStatus   `json:"status,omitempty" nullable:"true" enum:"backlog,todo,in_progress,in_review,done,blocked,cancelled" maxItems:"20" doc:"Only these statuses."`
	Priority          []board.IssuePriority `json:"priority,omitempty" nullable:"true" enum:"urgent,high,medium,low,none" maxItems:"20" doc:"Only these priorities."`
	AssigneeType      []board.ActorType     `json:"assignee_type,omitempty" nullable:"true" enum:"member,agent,squad" maxItems:"20" doc:"Only those assigned to such."`
	AssigneeID        []string              `json:"assignee_id,omitempty" nullable:"true" maxItems:"1000" maxLength:"128" doc:"Only those assigned to these."`
	IncludeNoAssignee bool                  `json:"include_no_assignee,omitempty" doc:"Besides those of the assignees, those that are not assigned."`
	CreatorID         []string              `json:"creator_id,omitempty" nullable:"true" maxItems:"1000" maxLength:"128" doc:"Only those created by these."`
	Project           []string              `json:"project,omitempty" nullable:"true" maxItems:"1000" maxLength:"200" doc:"Only those of these projects."`
	LabelIDs          []string              `json:"label_ids,omitempty" nullable:"true" maxItems:"1000" maxLength:"100" doc:"Only those with one of these labels."`
	ParentID          []string              `json:"parent_id,omitempty" nullable:"true" maxItems:"1000" maxLength:"128" doc:"Only parts of these issues."`
	TopLevelOnly      bool                  `json:"top_level_only,omitempty" doc:"Only those that are part of no other."`
	OpenOnly          bool                  `json:"open_only,omitempty" doc:"Only those that are neither done nor cancelled."`
	UpdatedAfter      *time.Time            `json:"updated_after,omitempty" nullable:"true" doc:"Only those that were changed after this time."`
	DueBefore         *time.Time            `json:"due_before,omitempty" nullable:"true" doc:"Only those that are due before this time."`
	Sort              board.IssueSort       `json:"sort,omitempty" enum:"position,priority,created_at,updated_at,due_date,last_activity_at,title" default:"position" doc:"The order."`
	Direction         string                `json:"direction,omitempty" enum:"asc,desc" default:"asc" doc:"The direction of the order."`
	Limit             int                   `json:"limit,omitempty" minimum:"1" maximum:"100" default:"50" doc:"Maximum number of entries." example:"20"`
	Offset            int                   `json:"offset,omitempty" minimum:"0" maximum:"1000000" default:"0" doc:"Number of entries to skip." example:"0"`
}

func (f issueFiltersBody) query() board.IssueQuery {
	return board.IssueQuery{
		Text:              f.Q,
		Statuses:          fields.Texts(f.Status),
		Priorities:        fields.Texts(f.Priority),
		AssigneeTypes:     fields.Texts(f.AssigneeType),
		AssigneeIDs:       f.AssigneeID,
		IncludeNoAssignee: f.IncludeNoAssignee,
		CreatorIDs:        f.CreatorID,
		Projects:          f.Project,
		Labels:            f.LabelIDs,
		ParentIDs:         f.ParentID,
		TopLevelOnly:      f.TopLevelOnly,
		OpenOnly:          f.OpenOnly,
		UpdatedAfter:      f.UpdatedAfter,
		DueBefore:         f.DueBefore,
		Sort:              f.Sort,
		Descending:        f.Direction == "desc",
		Limit:             f.Limit,
		Offset:            f.Offset,
	}
}

type issuePage struct {
	Items  []board.Issue `json:"items" nullable:"false" doc:"The entries of this page."`
	Total  int           `json:"total" doc:"Total number of entries." example:"1"`
	Limit  int           `json:"limit" doc:"Requested number of entries." example:"20"`
	Offset int           `json:"offset" doc:"Number of skipped entries." example:"0"`
}

type issueGroups struct {
	GroupBy board.IssueGrouping `json:"group_by" enum:"assignee,status,priority,project" doc:"What they are grouped by."`
	Groups  []board.IssueGroup  `json:"groups" nullable:"false" doc:"The groups, the largest first; at most 200."`
}

type timelinePage struct {
	Items     []board.TimelineEntry   `json:"items" nullable:"false" doc:"The entries of this page, oldest first."`
	Before    *string                 `json:"before" nullable:"true" doc:"Cursor of older entries; null: there are none."`
	After     *string                 `json:"after" nullable:"true" doc:"Cursor of newer entries; null: the page is empty."`
	Truncated board.TimelineTruncated `json:"truncated" doc:"What there is before this page, or was removed."`
}

func (a *IssuesAPI) registerReads(r *httpx.Server) {
	const issues = "/api/prod_workspaces/{workspace_id}/issues"
	httpx.Register(r, httpx.Operation{
		ID: "list-issues", Method: fiber.MethodGet, Path: issues, Tag: issueTag,
		Summary: "List the issues of a production workspace, by position",
		Scope:   auth.Workspaces, Errors: httpx.Codes{404: onWorkspace},
	}, a.list)
	httpx.Register(r, httpx.Operation{
		ID: "query-issues", Method: fiber.MethodGet, Path: issues + "/query", Tag: issueTag,
		Summary: "Query issues",
		Scope:   auth.Workspaces, Errors: httpx.Codes{404: onWorkspace},
	}, func(ctx context.Context, in *struct {
		ProdWorkspaceRef
		IssueFilters
	},
	) (*httpx.Body[issuePage], error) {
		return a.page(ctx, in.WorkspaceID, in.query())
	})
	httpx.Register(r, httpx.Operation{
		ID: "query-issues-by-body", Method: fiber.MethodPost, Path: issues + "/query", Tag: issueTag,
		Summary:     "Query issues, with long filters",
		Description: "The same as the query by GET, with its parameters in the body.",
		Scope:       auth.Workspaces, Errors: httpx.Codes{404: onWorkspace},
		Example: `{"status": ["todo", "in_progress"], "open_only": true, "sort": "priority"}`,
	}, func(ctx context.Context, in *struct {
		ProdWorkspaceRef
		Body issueFiltersBody
	},
	) (*httpx.Body[issuePage], error) {
		return a.page(ctx, in.WorkspaceID, in.Body.query())
	})
	httpx.Register(r, httpx.Operation{
		ID: "group-issues", Method: fiber.MethodGet, Path: issues + "/grouped", Tag: issueTag,
		Summary:     "List issues in groups",
		Description: "limit and offset hold for each group; with group_key, one group alone is given.",
		Scope:       auth.Workspaces, Errors: httpx.Codes{404: onWorkspace},
	}, a.grouped)
	httpx.Register(r, httpx.Operation{
		ID: "get-child-progress", Method: fiber.MethodGet, Path: issues + "/child-progress", Tag: issueTag,
		Summary: "List how far the parts of issues are, newest issue first",
		Scope:   auth.Workspaces, Errors: httpx.Codes{404: onWorkspace},
	}, a.progress)
	httpx.Register(r, httpx.Operation{
		ID: "get-issue-timeline", Method: fiber.MethodGet, Path: issues + "/{issue_id}/timeline", Tag: issueTag,
		Summary:     "Get what happened to an issue: comments, changes and runs",
		Description: "Without a cursor the newest entries are given. The newest 2,000 changes are kept.",
		Scope:       auth.Workspaces, Errors: httpx.Codes{404: onIssue},
	}, a.timeline)
}

func (a *IssuesAPI) page(ctx context.Context, workspaceID string, q board.IssueQuery) (*httpx.Body[issuePage], error) {
	page, total, err := a.Boards.QueryIssues(ctx, httpx.CallerOf(ctx).User.ID, workspaceID, q)
	return httpx.Answer(issuePage{fields.OrEmpty(page), total, q.Limit, q.Offset}, err)
}

func (a *IssuesAPI) list(ctx context.Context, in *struct {
	ProdWorkspaceRef
	Offset int `query:"offset" default:"0" minimum:"0" maximum:"1000000" doc:"Number of entries to skip." example:"0"`
	Limit  int `query:"limit" default:"1000" minimum:"1" maximum:"1000" doc:"Maximum number of entries." example:"20"`
},
) (*httpx.Body[issuePage], error) {
	return a.page(ctx, in.WorkspaceID, board.IssueQuery{Limit: in.Limit, Offset: in.Offset})
}

func (a *IssuesAPI) grouped(ctx context.Context, in *struct {
	ProdWorkspaceRef
	IssueFilters
	GroupBy  board.IssueGrouping `query:"group_by" enum:"assignee,status,priority,project" default:"assignee" doc:"What they are grouped by."`
	GroupKey string              `query:"group_key" maxLength:"400" doc:"The id of one group, to page it." example:"status:todo"`
},
) (*httpx.Body[issueGroups], error) {
	groups, err := a.Boards.GroupIssues(ctx, httpx.CallerOf(ctx).User.ID, in.WorkspaceID, in.query(), in.GroupBy, in.GroupKey)
	return httpx.Answer(issueGroups{in.GroupBy, fields.OrEmpty(groups)}, err)
}

func (a *IssuesAPI) progress(ctx context.Context, in *struct {
	ProdWorkspaceRef
	ParentID string `query:"parent_id" maxLength:"128" doc:"Of this issue alone."`
	Offset   int    `query:"offset" default:"0" minimum:"0" maximum:"1000000" doc:"Number of entries to skip." example:"0"`
	Limit    int    `query:"limit" default:"1000" minimum:"1" maximum:"1000" doc:"Maximum number of entries." example:"20"`
},
) (*httpx.Body[fields.Items[board.ChildProgress]], error) {
	page, total, err := a.Boards.ChildProgress(ctx, httpx.CallerOf(ctx).User.ID, in.WorkspaceID, in.ParentID, in.Limit, in.Offset)
	return httpx.Answer(fields.Items[board.ChildProgress]{Items: fields.OrEmpty(page), Total: total}, err)
}

func (a *IssuesAPI) timeline(ctx context.Context, in *struct {
	IssueRef
	Before string   `query:"before" maxLength:"128" doc:"Only entries before this cursor."`
	After  string   `query:"after" maxLength:"128" doc:"Only entries after this cursor, the oldest of them first."`
	Kinds  []string `query:"kinds,explode" enum:"comment,activity,run" maxItems:"3" doc:"Only entries of these kinds; repeatable."`
	Limit  int      `query:"limit" default:"100" minimum:"1" maximum:"500" doc:"Maximum number of entries." example:"20"`
},
) (*httpx.Body[timelinePage], error) {
	for _, cursor := range []struct{ at, id string }{{"query.before", in.Before}, {"query.after", in.After}} {
		if cursor.id != "" && uuid.Validate(cursor.id) != nil {
			return nil, domain.Invalidf(cursor.at, "is not a cursor of a timeline")
		}
	}

	page, err := a.Boards.Timeline(ctx, httpx.CallerOf(ctx).User.ID, in.WorkspaceID, in.IssueID, board.TimelineQuery{
		Before: in.Before, After: in.After, Kinds: in.Kinds, Limit: in.Limit,
	})

	return httpx.Answer(timelinePage{fields.OrEmpty(page.Items), page.Before, page.After, page.Truncated}, err)
}
