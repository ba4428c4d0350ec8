// Package board manages production workspaces: members, squads, issues and comments, and the runs
// of agents on issues. A change stores a plan of the runs to start and stop with its rows; the
// service carries it out after the commit, and Repair repeats what a crash left. The files with
// SQL are named after the store.
package board

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.temporal.io/sdk/worker"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/board"
	"everloop/infra/postgres/pg"
	"everloop/internal/retry"
	"everloop/service/agents"
)

// Chats sends messages and answers, and stops chats.
type Chats interface {
	Send(ctx context.Context, caller domain.Caller, send domain.Send) (domain.SendAck, error)
	Answer(ctx context.Context, caller domain.Caller, sessionID domain.SessionID, answer domain.Answer) (domain.AnswerAck, error)
	StopChat(ctx context.Context, caller domain.Caller, sessionID domain.SessionID, chatID domain.ChatID) error
}

// Deps are the dependencies of New. All are required.
type Deps struct {
	DB       *pg.DB
	StartRun func(ctx context.Context, runID string) error // starts the workflow of an issue run
	// NotifyWaiter signals a workflow that waits for the end of a run; false: it is not open.
	NotifyWaiter func(ctx context.Context, waiter domain.ChatWaiter) (bool, error)
	Chats        Chats
	Agents       *agents.Service
	Logger       *slog.Logger
}

// Service manages production workspaces, and starts and ends the runs of agents on their issues.
type Service struct {
	*Store
	deps    Deps
	answers *retry.Pauses // between attempts to take an answer, by question and comment
}

// New returns a new service.
func New(deps Deps) *Service {
	return &Service{NewStore(deps.DB), deps, retry.NewPauses(time.Now)}
}

// Register binds the activities of issue runs to the service.
func (s *Service) Register(w worker.ActivityRegistry) {
	contract.BeginIssueRun.Handle(w, func(ctx context.Context, in contract.IssueRunInput) (contract.IssueRunOut, error) {
		sessionID, ended, err := s.Begin(ctx, in.RunID)
		return contract.IssueRunOut{Ended: ended, SessionID: sessionID}, err
	})
	contract.StopIssueRun.Handle(w, func(ctx context.Context, in contract.IssueRunInput) (out struct{}, err error) {
		_, err = s.CancelAnyRun(ctx, in.RunID)
		return out, err
	})
	contract.EndIssueRun.Handle(w, func(ctx context.Context, in contract.IssueRunInput) (contract.IssueRunOut, error) {
		ended, err := s.End(ctx, in.RunID)
		return contract.IssueRunOut{Ended: ended}, err
	})
}

// CreateIssue creates an issue and starts the run of the agent that it is assigned to.
func (s *Service) CreateIssue(ctx context.Context, userID, workspaceID string, in board.IssueFields) (board.Issue, error) {
	made, plan, err := s.Store.CreateIssue(ctx, userID, workspaceID, in)

	return made, s.follow(ctx, plan, err)
}

// ChangeIssue changes an issue, and starts and stops runs accordingly.
func (s *Service) ChangeIssue(ctx context.Context, userID, workspaceID, id string, in board.IssueFields) (board.Issue, error) {
	changed, plan, err := s.Store.ChangeIssue(ctx, userID, workspaceID, id, in)

	return changed, s.follow(ctx, plan, err)
}

// Comment adds a comment. The agent of the issue gets it as an answer or in its next message.
func (s *Service) Comment(ctx context.Context, userID, workspaceID, issueID string, in board.NewComment) (board.Comment, error) {
	made, plan, err := s.AddComment(ctx, userID, workspaceID, issueID, in)

	return made, s.follow(ctx, plan, err)
}

// StartRun starts a run that a member requests.
func (s *Service) StartRun(ctx context.Context, userID, workspaceID, issueID, note string) (board.IssueRun, error) {
	made, plan, err := s.StartIssueRun(ctx, userID, workspaceID, issueID, note)

	return made, s.follow(ctx, plan, err)
}

// CancelRun stops a run.
func (s *Service) CancelRun(ctx context.Context, userID, workspaceID, issueID, runID string) error {
	plan, err := s.CancelIssueRun(ctx, userID, workspaceID, issueID, runID)

	return s.follow(ctx, plan, err)
}

// CancelAnyRun stops a run for an administrator. It returns false when the run has ended or is
// already being stopped.
func (s *Service) CancelAnyRun(ctx context.Context, runID string) (open bool, err error) {
	open, plan, err := s.CancelAnyIssueRun(ctx, runID)

	return open, s.follow(ctx, plan, err)
}

// StopIssue stops the run of an issue; it does nothing when none works.
func (s *Service) StopIssue(ctx context.Context, issueID string) error {
	runID, err := s.ActiveRun(ctx, issueID)
	if err != nil || runID == "" {
		return err
	}

	_, err = s.CancelAnyRun(ctx, runID)

	return err
}

// FailRun ends a run as failed for an administrator, and blocks its issue.
func (s *Service) FailRun(ctx context.Context, runID, code, message string) error {
	plan, err := s.BlockIssueRun(ctx, runID, code, message)

	return s.follow(ctx, plan, err)
}

// DeleteWorkspace deletes a workspace and stops its runs.
func (s *Service) DeleteWorkspace(ctx context.Context, userID, id string) error {
	plan, err := s.Store.DeleteWorkspace(ctx, userID, id)

	return s.follow(ctx, plan, err)
}

// follow carries out the plan of a stored change, and returns the error of the change, after
// which there is no plan. Repair repeats the steps that fail.
func (s *Service) follow(ctx context.Context, plan board.IssueRunPlan, failed error) error {
	if failed != nil {
		return failed
	}

	ctx = context.WithoutCancel(ctx)
	for _, run := range plan.Stop {
		if err := s.Stop(ctx, run); err != nil {
			s.deps.Logger.Warn("failed to stop an issue run, retrying", "session_id", run.SessionID, "error", err)
		}
	}

	for _, agentID := range plan.Agents {
		if err := s.Dispatch(ctx, agentID); err != nil {
			s.deps.Logger.Warn("failed to start issue runs, retrying", "agent_id", agentID, "error", err)
		}
	}

	for _, waiter := range plan.Notify {
		if _, err := s.deps.NotifyWaiter(ctx, domain.ChatWaiter{WorkflowID: waiter}); err != nil {
			s.deps.Logger.Warn("failed to report the end of an issue run, retrying", "workflow_id", waiter, "error", err)
		}
	}

	for _, runID := range plan.Answer {
		if err := s.answerIn(ctx, runID); err != nil {
			s.deps.Logger.Warn("failed to answer an issue run, retrying", "run_id", runID, "error", err)
		}
	}

	return nil
}

// Dispatch starts the oldest queued runs of an agent, up to the number that it may run concurrently.
func (s *Service) Dispatch(ctx context.Context, agentID string) error {
	started, err := s.DispatchRuns(ctx, agentID)
	for _, runID := range started {
		err = errors.Join(err, s.deps.StartRun(ctx, runID))
	}

	return err
}

// Stop stops the chat of a run, and no other of its session.
func (s *Service) Stop(ctx context.Context, run domain.RunChat) error {
	err := s.deps.Chats.StopChat(ctx, caller(run.OwnerID), run.SessionID, run.ChatID)
	if domain.HasCode(err, domain.CodeSessionNotFound) {
		return nil
	}

	return err
}

func caller(ownerID string) domain.Caller { return domain.Caller{User: domain.User{ID: ownerID}} }
