package api

import (
	"context"
	"encoding/base64"

	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
)

// OperatorRuns are the runs of the workflow engine.
type OperatorRuns interface {
	Runs(ctx context.Context, q domain.OperatorRunQuery) (runs []domain.OperatorRun, next []byte, err error)
	// Cancel and ForceFail end an open run; run_not_found.
	Cancel(ctx context.Context, workflowID string) error
	ForceFail(ctx context.Context, workflowID, reason string) error
}

// Inbox is what waits for a user.
type Inbox interface {
	WaitingFor(ctx context.Context, userID string, offset, limit int) (page []domain.InboxItem, total int, err error)
}

type inboxPage struct {
	Items []domain.InboxItem `json:"items" nullable:"false"`
	Total int                `json:"total"`
}

type runPage struct {
	Items    []domain.OperatorRun `json:"items" nullable:"false"`
	NextPage string               `json:"next_page" doc:"Give it as page to go on; empty: there is no more."`
}

func (s *server) runRoutes() {
	add(s, operation{
		id: "list-inbox", method: fiber.MethodGet, path: "/api/inbox", tag: "Sessions",
		summary: "What waits for the caller: open questions of all sessions, the oldest first", scope: auth.SessionsRead,
	}, s.listInbox)
	const one = "/api/admin/runs/{workflow_id}"
	op := func(id, method, path, summary string) operation {
		return operation{id: id, method: method, path: path, tag: "Administration", summary: summary, scope: auth.Admin}
	}
	add(s, op("list-runs", fiber.MethodGet, "/api/admin/runs", "Runs of the workflow engine, the newest first"), s.listRuns)
	add(s, op("cancel-run", fiber.MethodPost, one+"/cancel", "Have an open run end in good order"), s.cancelRun)
	add(s, op("force-fail-run", fiber.MethodPost, one+"/force-fail", "End an open run that does not end by itself"), s.forceFailRun)
}

func (s *server) listInbox(ctx context.Context, in *struct {
	Offset int `query:"offset" default:"0" minimum:"0"`
	Limit  int `query:"limit" default:"50" minimum:"1" maximum:"200"`
},
) (*body[inboxPage], error) {
	page, total, err := s.Inbox.WaitingFor(ctx, callerOf(ctx).User.ID, in.Offset, in.Limit)
	return answer(inboxPage{orEmpty(page), total}, err)
}

func (s *server) listRuns(ctx context.Context, in *struct {
	Status    string `query:"status" enum:"running,completed,failed,canceled,terminated,continued_as_new,timed_out"`
	Kind      string `query:"kind" enum:"chat,fork,task,compaction,replay"`
	SessionID string `query:"session_id" maxLength:"128" pattern:"^[A-Za-z0-9_.-]*$"`
	OwnerID   string `query:"owner_id" maxLength:"128" pattern:"^[A-Za-z0-9_.-]*$"`
	Page      string `query:"page" maxLength:"4096" doc:"next_page of the answer before."`
	Limit     int    `query:"limit" default:"50" minimum:"1" maximum:"200"`
},
) (*body[runPage], error) {
	page, err := base64.RawURLEncoding.DecodeString(in.Page)
	if err != nil {
		return nil, domain.Invalidf("query.page", "is not one that this list gave")
	}
	runs, next, err := s.Runs.Runs(ctx, domain.OperatorRunQuery{
		Status: in.Status, Kind: in.Kind, SessionID: in.SessionID, OwnerID: in.OwnerID, Page: page, Limit: in.Limit,
	})
	return answer(runPage{orEmpty(runs), base64.RawURLEncoding.EncodeToString(next)}, err)
}

// RunRef names a run by its workflow's id.
type RunRef struct {
	WorkflowID string `path:"workflow_id" maxLength:"300" pattern:"^[!-~]+$" doc:"Percent-encoded, as session%2F…"`
}

func (s *server) cancelRun(ctx context.Context, in *RunRef) (*body[okBody], error) {
	if err := s.Runs.Cancel(ctx, in.WorkflowID); err != nil {
		return nil, err
	}
	s.audit(ctx, "run.cancel", in.WorkflowID, nil)
	return answer(okBody{true}, nil)
}

func (s *server) forceFailRun(ctx context.Context, in *RunRef) (*body[okBody], error) {
	if err := s.Runs.ForceFail(ctx, in.WorkflowID, "ended by an administrator"); err != nil {
		return nil, err
	}
	s.audit(ctx, "run.force_fail", in.WorkflowID, nil)
	return answer(okBody{true}, nil)
}
