package production

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gofiber/fiber/v2"

	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/domain/board"
	boards "everloop/service/board"
)

// IssueRef is the path of an operation on one issue.
type IssueRef struct {
	ProdWorkspaceRef
	IssueID string `path:"issue_id" maxLength:"128" doc:"The issue." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb9"`
}

// IssueOptions are the fields that a creation and a change have in common; left out: the
// default, or as before.
type IssueOptions struct {
	Description  *string                         `json:"description,omitempty" nullable:"true" maxLength:"20000" doc:"The description."`
	Priority     *board.IssuePriority            `json:"priority,omitempty" nullable:"true" enum:"urgent,high,medium,low,none" doc:"The priority; default none."`
	Status       *board.IssueStatus              `json:"status,omitempty" nullable:"true" enum:"backlog,todo,in_progress,in_review,done,blocked,cancelled" doc:"The status; default todo."`
	Assignee     *string                         `json:"assignee,omitempty" nullable:"true" maxLength:"128" doc:"The name of a member, an agent instance or a squad, instead of assignee_id." example:"bob"`
	AssigneeType httpx.Nullable[board.ActorType] `json:"assignee_type,omitempty" nullable:"true" enum:"member,agent,squad" doc:"What it is assigned to, beside assignee_id or assignee: alone it changes nothing, and is rejected for a new issue. null: not assigned. Left out: whatever has the id or the name."`
	AssigneeID   httpx.Nullable[string]          `json:"assignee_id,omitempty" nullable:"true" maxLength:"128" doc:"The user, agent instance or squad; null: not assigned."`
	Project      httpx.Nullable[string]          `json:"project,omitempty" nullable:"true" maxLength:"200" doc:"The project; null: none." example:"search"`
	Parent       httpx.Nullable[string]          `json:"parent_issue_id,omitempty" nullable:"true" maxLength:"128" doc:"The issue that it is a part of; null: none."`
	Position     *float64                        `json:"position,omitempty" nullable:"true" minimum:"-1000000000000" maximum:"1000000000000" doc:"Its place in lists, smallest first; default: its number."`
	Stage        httpx.Nullable[string]          `json:"stage,omitempty" nullable:"true" maxLength:"64" doc:"The stage of its parent that it belongs to; null: none." example:"build"`
	StartDate    httpx.Nullable[time.Time]       `json:"start_date,omitempty" nullable:"true" doc:"When it should begin; null: not said."`
	DueDate      httpx.Nullable[time.Time]       `json:"due_date,omitempty" nullable:"true" doc:"When it should be done; null: not said."`
	Labels       []string                        `json:"labels,omitempty" nullable:"true" maxItems:"50" maxLength:"100" minLength:"1" doc:"The labels; they replace those that it has."`
	Metadata     map[string]any                  `json:"metadata,omitempty" nullable:"true" doc:"What clients keep with it, 16 KB as JSON; it replaces what there is."`
	SuppressRun  *bool                           `json:"suppress_run,omitempty" nullable:"true" doc:"true: an agent or a squad that it is assigned to does not begin a run."`
	HandoffNote  *string                         `json:"handoff_note,omitempty" nullable:"true" maxLength:"20000" doc:"A note that the agent gets with the issue."`
}

// fields returns the fields as the database takes them.
func (b IssueOptions) fields() (board.IssueFields, error) {
	in := board.IssueFields{
		Description: fields.Cleaned(b.Description), Priority: b.Priority, Status: b.Status, Position: b.Position,
		Project: fields.Text(b.Project), Parent: fields.Text(b.Parent), Stage: fields.Text(b.Stage),
		StartDate: board.Change[time.Time]{Set: b.StartDate.Present, Value: b.StartDate.Value},
		DueDate:   board.Change[time.Time]{Set: b.DueDate.Present, Value: b.DueDate.Value},

		SuppressRun: fields.Value(b.SuppressRun), HandoffNote: domain.CleanText(fields.Value(b.HandoffNote)),
	}
	if b.Labels != nil {
		in.Labels = fields.CleanTexts(b.Labels)
	}

	if b.Metadata != nil {
		metadata, err := json.Marshal(b.Metadata)
		if err != nil || len(metadata) > board.MaxIssueMetadata {
			return in, domain.Invalidf("body.metadata", "has more than %d bytes as JSON", board.MaxIssueMetadata)
		}

		in.Metadata = metadata
	}

	var err error

	in.Assignee, err = b.assignee()

	return in, err
}

// assignee returns who the issue must be assigned to; nil: it is not said.
func (b IssueOptions) assignee() (*board.AssigneeRef, error) {
	ref := board.AssigneeRef{
		Type: fields.Value(b.AssigneeType.Value),
		ID:   fields.Value(b.AssigneeID.Value),
		Name: fields.Value(b.Assignee),
	}
	switch {
	case !ref.None():
		return &ref, nil
	case b.AssigneeID.Present || b.AssigneeType.Present && ref.Type == "":
		return &ref, nil
	}

	return nil, nil
}

type newIssueBody struct {
	Title string `json:"title" minLength:"1" maxLength:"500" doc:"Its title." example:"Add a search page"`
	IssueOptions
}

type issueChangeBody struct {
	Title *string `json:"title,omitempty" nullable:"true" minLength:"1" maxLength:"500" doc:"Its title." example:"Add a search page"`
	IssueOptions
	ExpectedRevision *int `json:"expected_revision,omitempty" nullable:"true" minimum:"1" doc:"The revision that the change is based on; with another one: version_conflict." example:"3"`
}

type newCommentBody struct {
	Content     string  `json:"content" minLength:"1" maxLength:"20000" doc:"The text." example:"Please use the existing index."`
	ParentID    *string `json:"parent_id,omitempty" nullable:"true" maxLength:"128" doc:"The comment that it replies to."`
	SuppressRun *bool   `json:"suppress_run,omitempty" nullable:"true" doc:"true: it begins no run."`
}

// IssuesAPI manages the issues of production workspaces.
type IssuesAPI struct {
	Boards Boards
	Board  *boards.Service
}

const (
	onIssue  = "workspace_not_found issue_not_found"
	issueTag = "Issues"
)

// Register adds the operations of the area to the interface.
func (a *IssuesAPI) Register(r *httpx.Server) {
	a.registerReads(r) // their paths have no issue
	httpx.Register(r, httpx.Operation{
		ID: "create-issue", Method: fiber.MethodPost, Path: "/api/prod_workspaces/{workspace_id}/issues", Tag: issueTag,
		Summary:     "Create an issue",
		Description: "Assigned to an agent instance or a squad, it begins a run, unless suppress_run is set.",
		Scope:       auth.Workspaces,
		Errors: httpx.Codes{
			403: "workspace_role_required", 404: "workspace_not_found issue_not_found assignee_not_found",
			409: "issue_limit assignee_ambiguous parent_too_deep",
		},
		Example: `{"title": "Add a search page", "priority": "high", "labels": ["frontend"]}`,
	}, a.create)
	httpx.Register(r, httpx.Operation{
		ID: "get-issue", Method: fiber.MethodGet, Path: "/api/prod_workspaces/{workspace_id}/issues/{issue_id}", Tag: issueTag,
		Summary: "Get an issue",
		Scope:   auth.Workspaces, Errors: httpx.Codes{404: onIssue},
	}, func(ctx context.Context, in *IssueRef) (*httpx.Body[board.Issue], error) {
		return httpx.Answer(a.Boards.Issue(ctx, httpx.CallerOf(ctx).User.ID, in.WorkspaceID, in.IssueID))
	})
	httpx.Register(r, httpx.Operation{
		ID: "update-issue", Method: fiber.MethodPut, Path: "/api/prod_workspaces/{workspace_id}/issues/{issue_id}", Tag: issueTag,
		Summary: "Update an issue",
		Description: "Fields left out keep their values. Another agent instance or squad begins a run, unless suppress_run is set; " +
			"another assignee, and done or cancelled as the status, stop the run that works.",
		Scope: auth.Workspaces,
		Errors: httpx.Codes{
			403: "workspace_role_required", 404: "workspace_not_found issue_not_found assignee_not_found",
			409: "version_conflict assignee_ambiguous parent_cycle parent_too_deep",
		},
		Example: `{"status": "in_review", "expected_revision": 3}`,
	}, a.change)
	httpx.Register(r, httpx.Operation{
		ID: "delete-issue", Method: fiber.MethodDelete, Path: "/api/prod_workspaces/{workspace_id}/issues/{issue_id}", Tag: issueTag,
		Summary: "Delete an issue",
		Description: "For its creator, and for administrators and owners of the workspace. Its comments, changes and runs are deleted " +
			"with it; its parts and the sessions of its runs stay. While a run works on it, or is being stopped, it is refused.",
		Scope: auth.Workspaces, Audit: "issue.delete",
		Errors: httpx.Codes{403: "workspace_role_required", 404: onIssue, 409: "issue_run_active"},
	}, a.remove)
	httpx.Register(r, httpx.Operation{
		ID:      "list-issue-comments",
		Method:  fiber.MethodGet,
		Path:    "/api/prod_workspaces/{workspace_id}/issues/{issue_id}/comments",
		Tag:     issueTag,
		Summary: "List the comments of an issue, oldest first",
		Scope:   auth.Workspaces,
		Errors:  httpx.Codes{404: onIssue},
	}, a.comments)
	httpx.Register(r, httpx.Operation{
		ID:      "create-issue-comment",
		Method:  fiber.MethodPost,
		Path:    "/api/prod_workspaces/{workspace_id}/issues/{issue_id}/comments",
		Tag:     issueTag,
		Summary: "Comment on an issue",
		Description: "The agent that works on it gets it: the comment is the answer to its question, or else its next message. " +
			"Where none works on an issue of an agent instance or a squad, a run begins, unless the workspace or suppress_run says " +
			"otherwise.",
		Scope: auth.Workspaces,
		Errors: httpx.Codes{403: "workspace_role_required", 404: "workspace_not_found issue_not_found " +
			"comment_not_found", 409: "comment_limit"},
		Example: `{"content": "Please use the existing index."}`,
	}, a.comment)
	a.registerRuns(r)
}

func (a *IssuesAPI) create(ctx context.Context, in *struct {
	ProdWorkspaceRef
	Body newIssueBody
},
) (*httpx.Body[board.Issue], error) {
	issue, err := in.Body.fields()
	if err != nil {
		return nil, err
	}

	if in.Body.AssigneeType.Value != nil && issue.Assignee == nil {
		return nil, domain.Invalidf("body.assignee_id", "is required with assignee_type, or assignee is")
	}

	issue.Title = fields.Cleaned(&in.Body.Title)

	return httpx.Answer(a.Board.CreateIssue(ctx, httpx.CallerOf(ctx).User.ID, in.WorkspaceID, issue))
}

func (a *IssuesAPI) change(ctx context.Context, in *struct {
	IssueRef
	Body issueChangeBody
},
) (*httpx.Body[board.Issue], error) {
	issue, err := in.Body.fields()
	if err != nil {
		return nil, err
	}

	issue.Title, issue.ExpectedRevision = fields.Cleaned(in.Body.Title), in.Body.ExpectedRevision

	return httpx.Answer(a.Board.ChangeIssue(ctx, httpx.CallerOf(ctx).User.ID, in.WorkspaceID, in.IssueID, issue))
}

func (a *IssuesAPI) comments(ctx context.Context, in *struct {
	IssueRef
	Offset int `query:"offset" default:"0" minimum:"0" maximum:"1000000" doc:"Number of entries to skip." example:"0"`
	Limit  int `query:"limit" default:"1000" minimum:"1" maximum:"1000" doc:"Maximum number of entries." example:"20"`
},
) (*httpx.Body[fields.Items[board.Comment]], error) {
	page, total, err := a.Boards.Comments(ctx, httpx.CallerOf(ctx).User.ID, in.WorkspaceID, in.IssueID, in.Limit, in.Offset)
	return httpx.Answer(fields.Items[board.Comment]{Items: fields.OrEmpty(page), Total: total}, err)
}

func (a *IssuesAPI) comment(ctx context.Context, in *struct {
	IssueRef
	Body newCommentBody
},
) (*httpx.Body[board.Comment], error) {
	return httpx.Answer(a.Board.Comment(ctx, httpx.CallerOf(ctx).User.ID, in.WorkspaceID, in.IssueID, board.NewComment{
		Content: domain.CleanText(
			in.Body.Content,
		),
		ParentID:    fields.OrNil(in.Body.ParentID),
		SuppressRun: fields.Value(in.Body.SuppressRun),
	}))
}

func (a *IssuesAPI) remove(ctx context.Context, in *IssueRef) (*httpx.Body[fields.OkBody], error) {
	err := a.Boards.DeleteIssue(ctx, httpx.CallerOf(ctx).User.ID, in.WorkspaceID, in.IssueID)
	if err == nil {
		httpx.Concerns(ctx, in.IssueID, map[string]string{"workspace_id": in.WorkspaceID})
	}

	return httpx.Answer(fields.OkBody{OK: true}, err)
}
