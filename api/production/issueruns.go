package production

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/domain/board"
)

func (a *IssuesAPI) registerRuns(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID:      "list-issue-runs",
		Method:  fiber.MethodGet,
		Path:    "/api/prod_workspaces/{workspace_id}/issues/{issue_id}/task-runs",
		Tag:     issueTag,
		Summary: "List the runs of agents on an issue, newest first",
		Scope:   auth.Workspaces,
		Errors:  httpx.Codes{404: onIssue},
	}, a.runs)
	httpx.Register(r, httpx.Operation{
		ID:          "start-issue-run",
		Method:      fiber.MethodPost,
		Path:        "/api/prod_workspaces/{workspace_id}/issues/{issue_id}/task-runs",
		Tag:         issueTag,
		Summary:     "Begin a run of the agent that an issue is assigned to",
		Description: "After a run that failed or was stopped it is another attempt, in the same session.",
		Scope:       auth.Workspaces,
		Audit:       "issue_run.start",
		Errors: httpx.Codes{
			403: "workspace_role_required", 404: onIssue, 409: "issue_closed issue_not_assigned issue_run_active issue_run_limit",
		},
		Example: `{"handoff_note": "The index is there now."}`,
	}, a.startRun)
	httpx.Register(r, httpx.Operation{
		ID: "cancel-issue-run", Method: fiber.MethodPost, Tag: issueTag,
		Path:    "/api/prod_workspaces/{workspace_id}/issues/{issue_id}/task-runs/{run_id}/cancel",
		Summary: "Stop a run",
		Scope:   auth.Workspaces, Audit: "issue_run.cancel",
		Errors: httpx.Codes{403: "workspace_role_required", 404: "workspace_not_found issue_not_found " +
			"issue_run_not_found", 409: "issue_run_over"},
	}, a.cancelRun)
	httpx.Register(r, httpx.Operation{
		ID: "get-issue-usage", Method: fiber.MethodGet, Path: "/api/prod_workspaces/{workspace_id}/issues/{issue_id}/usage", Tag: issueTag,
		Summary:     "Get what the runs on an issue have used",
		Description: "Tokens whose cost is not known are in uncosted as well.",
		Scope:       auth.Workspaces, Errors: httpx.Codes{404: onIssue},
	}, func(ctx context.Context, in *IssueRef) (*httpx.Body[board.IssueUsage], error) {
		usage, err := a.Boards.IssueUsage(ctx, httpx.CallerOf(ctx).User.ID, in.WorkspaceID, in.IssueID)
		usage.ByModel, usage.ByAgent = fields.OrEmpty(usage.ByModel), fields.OrEmpty(usage.ByAgent)

		return httpx.Answer(usage, err)
	})
}

func (a *IssuesAPI) runs(ctx context.Context, in *struct {
	IssueRef
	Offset int `query:"offset" default:"0" minimum:"0" maximum:"1000000" doc:"Number of entries to skip." example:"0"`
	Limit  int `query:"limit" default:"1000" minimum:"1" maximum:"1000" doc:"Maximum number of entries." example:"20"`
},
) (*httpx.Body[fields.Items[board.IssueRun]], error) {
	page, total, err := a.Boards.IssueRuns(ctx, httpx.CallerOf(ctx).User.ID, in.WorkspaceID, in.IssueID, in.Limit, in.Offset)
	return httpx.Answer(fields.Items[board.IssueRun]{Items: fields.OrEmpty(page), Total: total}, err)
}

func (a *IssuesAPI) startRun(ctx context.Context, in *struct {
	IssueRef
	Body *struct {
		HandoffNote *string `json:"handoff_note,omitempty" nullable:"true" maxLength:"20000" doc:"A note that the agent gets with the issue." example:"The index is there now."`
	}
},
) (*httpx.Body[board.IssueRun], error) {
	note := ""
	if in.Body != nil {
		note = domain.CleanText(fields.Value(in.Body.HandoffNote))
	}

	run, err := a.Board.StartRun(ctx, httpx.CallerOf(ctx).User.ID, in.WorkspaceID, in.IssueID, note)
	if err == nil {
		httpx.Concerns(ctx, run.ID, map[string]string{"issue_id": in.IssueID})
	}

	return httpx.Answer(run, err)
}

func (a *IssuesAPI) cancelRun(ctx context.Context, in *struct {
	IssueRef
	RunID string `path:"run_id" maxLength:"128" doc:"The run." example:"01a1ff63-40a1-7c55-a62e-d84c269739b6"`
},
) (*httpx.Body[fields.OkBody], error) {
	httpx.Concerns(ctx, in.RunID, map[string]string{"issue_id": in.IssueID})
	return httpx.Answer(fields.OkBody{OK: true}, a.Board.CancelRun(ctx, httpx.CallerOf(ctx).User.ID, in.WorkspaceID, in.IssueID, in.RunID))
}
