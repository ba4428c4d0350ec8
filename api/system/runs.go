package system

import (
	"cmp"
	"context"
	"encoding/base64"
	"reflect"
	"strings"

	"github.com/gofiber/fiber/v2"

	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/chatrequest"
	"everloop/domain"
	"everloop/domain/operator"
	"everloop/infra/postgres/conversation"
)

// OperatorRuns are the runs of the workflow engine.
type OperatorRuns interface {
	Runs(ctx context.Context, q operator.RunQuery) (runs []operator.Run, next []byte, err error)
	// Cancel and ForceFail end an open run, Resume has it continue from the database;
	// run_not_found, or a conflict with the reason.
	Cancel(ctx context.Context, workflowID string) error
	ForceFail(ctx context.Context, workflowID, reason string) error
	Resume(ctx context.Context, workflowID string) error
}

type inboxPage struct {
	Items []domain.InboxItem `json:"items" nullable:"false" doc:"The entries of this page."`
	Total int                `json:"total" doc:"Total number of entries." example:"1"`
}

type runPage struct {
	Items    []operator.Run `json:"items" nullable:"false" doc:"The entries of this page."`
	NextPage string         `json:"next_page" doc:"Give it as page to go on; empty: there is no more."`
}

// runsAPI lists and ends workflow runs.
type runsAPI struct {
	runs    OperatorRuns
	inbox   *conversation.Base
	respond func(ctx context.Context, caller domain.Caller, questionID string, answer domain.Answer) (domain.AnswerAck, error)
}

// Register adds the operations of the area to the interface.
func (a *runsAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "list-inbox", Method: fiber.MethodGet, Path: "/api/inbox", Tag: "Sessions",
		Summary: "List the caller's sessions that wait for an answer",
		Description: "Questions and permission requests of all sessions, of sub-agents and scheduled runs too, the oldest first. Each " +
			"stays " +
			"open until it is answered, its time is over, or its chat is stopped.",
		Scope: auth.SessionsRead,
	}, a.listInbox)
	httpx.Register(r, httpx.Operation{
		ID: "answer-inbox", Method: fiber.MethodPost, Path: "/api/inbox/{question_id}/answer", Tag: "Sessions",
		Summary:     "Answer a question of the inbox",
		Description: "The first answer counts; a later one gets resolved: false.",
		Scope:       auth.Chat, Errors: httpx.Codes{404: "question_not_found", 409: "session_busy", 422: "invalid_answer"},
		Body:    reflect.TypeFor[chatrequest.InboxAnswer](),
		Example: `{"selections": {"0": [1]}}`,
	}, a.answer)
	httpx.Register(r, httpx.Operation{
		ID: "list-runs", Method: fiber.MethodGet, Path: "/api/admin/runs", Tag: "Administration",
		Summary: "List workflow runs, newest first",
		Description: "Runs of every kind of work, with why each waits, on whom, and what may be done. With the status lost: open work of " +
			"the database that no open workflow carries, for longer than 10 seconds. next_page is the token of the next page.",
		Scope: auth.Admin,
	}, a.listRuns)
	httpx.Register(r, httpx.Operation{
		ID: "cancel-run", Method: fiber.MethodPost, Path: "/api/admin/runs/{workflow_id}/cancel", Tag: "Administration",
		Summary:     "Cancel a workflow run",
		Description: "A chat is stopped as if by its owner, also while it waits for an answer: it ends as interrupted.",
		Scope:       auth.Admin, Audit: "run.cancel",
		Errors: httpx.Codes{404: "run_not_found", 409: "run_action_impossible"},
	}, a.cancelRun)
	httpx.Register(r, httpx.Operation{
		ID: "force-fail-run", Method: fiber.MethodPost, Path: "/api/admin/runs/{workflow_id}/force-fail", Tag: "Administration",
		Summary: "Force-fail a stuck workflow run",
		Description: "The run is terminated at once, and its chat ends as failed with the code run_lost and the reason within about 20 " +
			"seconds. A chat that waits for an answer ends at once, as interrupted. Runs of DAGs, issues and scheduled tasks end at " +
			"once, and what they have begun is stopped.",
		Scope: auth.Admin, Audit: "run.force_fail",
		Errors:  httpx.Codes{404: "run_not_found", 409: "run_action_impossible"},
		Example: `{"reason": "The source of the report is gone"}`,
	}, a.forceFailRun)
	httpx.Register(r, httpx.Operation{
		ID: "resume-run", Method: fiber.MethodPost, Path: "/api/admin/runs/{workflow_id}/resume", Tag: "Administration",
		Summary: "Resume a workflow run from the database",
		Description: "The workflow is closed, and another one continues what the database holds. What the old one still carries out is " +
			"fenced off. 409 says why a run cannot be resumed.",
		Scope: auth.Admin, Audit: "run.resume",
		Errors: httpx.Codes{404: "run_not_found", 409: "run_waits_for_answer"},
	}, a.resumeRun)
}

func (a *runsAPI) listInbox(ctx context.Context, in *struct {
	Offset int `query:"offset" default:"0" minimum:"0" doc:"Number of entries to skip." example:"0"`
	Limit  int `query:"limit" default:"50" minimum:"1" maximum:"200" doc:"Maximum number of entries." example:"20"`
},
) (*httpx.Body[inboxPage], error) {
	page, total, err := a.inbox.OpenQuestions(ctx, httpx.CallerOf(ctx).User.ID, in.Offset, in.Limit)
	return httpx.Answer(inboxPage{fields.OrEmpty(page), total}, err)
}

func (a *runsAPI) listRuns(ctx context.Context, in *struct {
	Status    string           `query:"status" enum:"running,completed,failed,canceled,terminated,continued_as_new,timed_out,lost" doc:"Only runs with this status."`
	Kind      string           `query:"kind" enum:"chat,fork,task,compaction,replay,history,import,archive,deletion,schedule,issue,dag,trigger" doc:"Only runs of this kind."`
	SessionID domain.SessionID `query:"session_id" maxLength:"128" pattern:"^[A-Za-z0-9_.-]*$" doc:"Only runs of this session." example:"01a1fd9b-4f0b-74a3-bdbc-594f816ae116"`
	OwnerID   string           `query:"owner_id" maxLength:"128" pattern:"^[A-Za-z0-9_.-]*$" doc:"Only runs of this user: of their sessions, DAGs, issues and scheduled tasks." example:"01a1fd9a-e0d1-7c52-b4f3-7a1d0c9e8b21"`
	Page      string           `query:"page" maxLength:"4096" doc:"next_page of the answer before." example:"bmV4dA"`
	Limit     int              `query:"limit" default:"50" minimum:"1" maximum:"200" doc:"Maximum number of entries." example:"20"`
},
) (*httpx.Body[runPage], error) {
	page, err := base64.RawURLEncoding.DecodeString(in.Page)
	if err != nil {
		return nil, domain.Invalidf("query.page", "is not one that this list gave")
	}

	runs, next, err := a.runs.Runs(ctx, operator.RunQuery{
		Status: in.Status, Kind: in.Kind, SessionID: in.SessionID, OwnerID: in.OwnerID, Page: page, Limit: in.Limit,
	})

	return httpx.Answer(runPage{fields.OrEmpty(runs), base64.RawURLEncoding.EncodeToString(next)}, err)
}

// defaultReason is that of a run which an administrator has failed without saying why.
const defaultReason = "ended by an administrator"

// RunRef names a run by its workflow's id.
type RunRef struct {
	WorkflowID string `path:"workflow_id" maxLength:"300" pattern:"^[!-~]+$" doc:"Percent-encoded, as session%2F…" example:"session/01a1fd9b-4f0b-74a3-bdbc-594f816ae116"`
}

func (a *runsAPI) cancelRun(ctx context.Context, in *RunRef) (*httpx.Body[fields.OkBody], error) {
	httpx.Concerns(ctx, in.WorkflowID, nil)
	return httpx.Answer(fields.OkBody{OK: true}, a.runs.Cancel(ctx, in.WorkflowID))
}

func (a *runsAPI) forceFailRun(ctx context.Context, in *struct {
	RunRef
	Body *struct {
		Reason string `json:"reason,omitempty" maxLength:"500" doc:"Why; users read it as the error of the run. Left out: ended by an administrator." example:"The source of the report is gone"`
	}
},
) (*httpx.Body[fields.OkBody], error) {
	httpx.Concerns(ctx, in.WorkflowID, nil)

	reason := ""
	if in.Body != nil {
		reason = strings.TrimSpace(domain.CleanText(in.Body.Reason))
	}

	return httpx.Answer(fields.OkBody{OK: true}, a.runs.ForceFail(ctx, in.WorkflowID, cmp.Or(reason, defaultReason)))
}

func (a *runsAPI) resumeRun(ctx context.Context, in *RunRef) (*httpx.Body[fields.OkBody], error) {
	httpx.Concerns(ctx, in.WorkflowID, nil)
	return httpx.Answer(fields.OkBody{OK: true}, a.runs.Resume(ctx, in.WorkflowID))
}
