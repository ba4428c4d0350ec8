// Package board answers for production workspaces: issues and comments are stored, and
// the runs of agents that follow from them are begun, sent comments, and ended. What a
// crash leaves undone is repaired by service/work.
package board

import (
	"context"
	"errors"
	"log/slog"

	"everloop/domain"
	"everloop/domain/board"
	"everloop/domain/prodagent"
)

// Store reads and writes workspaces, issues and runs.
type Store interface {
	DeleteWorkspace(ctx context.Context, userID, id string) (board.IssueRunPlan, error)
	CreateIssue(ctx context.Context, userID, workspaceID string, in board.IssueFields) (board.Issue, board.IssueRunPlan, error)
	ChangeIssue(ctx context.Context, userID, workspaceID, id string, in board.IssueFields) (board.Issue, board.IssueRunPlan, error)
	AddComment(ctx context.Context, userID, workspaceID, issueID string, in board.NewComment) (board.Comment, board.IssueRunPlan, error)
	StartIssueRun(ctx context.Context, userID, workspaceID, issueID, note string) (board.IssueRun, board.IssueRunPlan, error)
	CancelIssueRun(ctx context.Context, userID, workspaceID, issueID, runID string) (board.IssueRunPlan, error)
	CancelAnyIssueRun(ctx context.Context, runID string) (open bool, plan board.IssueRunPlan, err error)

	DispatchRuns(ctx context.Context, agentID string) (started []string, err error)
	ClaimIssueRun(ctx context.Context, runID string) (board.ClaimedIssueRun, board.IssueRunPlan, error)
	IssueRunBegan(ctx context.Context, runID string, chatID domain.ChatID) (cancelled bool, err error)
	BlockIssueRun(ctx context.Context, runID, code, message string) (board.IssueRunPlan, error)
	EndIssueRun(ctx context.Context, runID string) (ended, again bool, plan board.IssueRunPlan, err error)

	AskedInRuns(ctx context.Context, runID, after string, limit int) ([]board.AskedInRun, error)
	PostQuestion(ctx context.Context, runID, questionID, text string) error
	AnswerTaken(ctx context.Context, runID, questionID, commentID string) error
}

// Runs reaches Temporal.
type Runs interface {
	StartIssueRun(ctx context.Context, runID string) error
}

// Chats sends messages and answers, and stops chats.
type Chats interface {
	Send(ctx context.Context, caller domain.Caller, send domain.Send) (domain.SendAck, error)
	Answer(ctx context.Context, caller domain.Caller, sessionID domain.SessionID, answer domain.Answer) (domain.AnswerAck, error)
	StopChat(ctx context.Context, caller domain.Caller, sessionID domain.SessionID, chatID domain.ChatID) error
}

// Agents makes the sessions of agent instances.
type Agents interface {
	// StartSession makes a session with the id that the caller has chosen, once.
	StartSession(ctx context.Context, ownerID string, in prodagent.Start) error
}

// Config is what New needs.
type Config struct {
	Store  Store
	Runs   Runs
	Chats  Chats
	Agents Agents
	Logger *slog.Logger
}

// Service answers for production workspaces.
type Service struct {
	cfg Config
}

// New checks the configuration.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Runs == nil || cfg.Chats == nil || cfg.Agents == nil || cfg.Logger == nil {
		return nil, errors.New("board: the configuration needs Records, Runs, Chats, Agents and Logger")
	}

	return &Service{cfg}, nil
}

// CreateIssue makes an issue, and begins the run of the agent that it is assigned to.
func (s *Service) CreateIssue(ctx context.Context, userID, workspaceID string, in board.IssueFields) (board.Issue, error) {
	made, plan, err := s.cfg.Store.CreateIssue(ctx, userID, workspaceID, in)
	if err == nil {
		s.follow(ctx, plan)
	}

	return made, err
}

// ChangeIssue changes an issue, and begins and ends runs as that asks for.
func (s *Service) ChangeIssue(ctx context.Context, userID, workspaceID, id string, in board.IssueFields) (board.Issue, error) {
	changed, plan, err := s.cfg.Store.ChangeIssue(ctx, userID, workspaceID, id, in)
	if err == nil {
		s.follow(ctx, plan)
	}

	return changed, err
}

// Comment adds a comment, of which the agent of the issue takes notice.
func (s *Service) Comment(ctx context.Context, userID, workspaceID, issueID string, in board.NewComment) (board.Comment, error) {
	made, plan, err := s.cfg.Store.AddComment(ctx, userID, workspaceID, issueID, in)
	if err == nil {
		s.follow(ctx, plan)
	}

	return made, err
}

// StartRun begins a run that a member has asked for.
func (s *Service) StartRun(ctx context.Context, userID, workspaceID, issueID, note string) (board.IssueRun, error) {
	made, plan, err := s.cfg.Store.StartIssueRun(ctx, userID, workspaceID, issueID, note)
	if err == nil {
		s.follow(ctx, plan)
	}

	return made, err
}

// CancelRun stops a run.
func (s *Service) CancelRun(ctx context.Context, userID, workspaceID, issueID, runID string) error {
	plan, err := s.cfg.Store.CancelIssueRun(ctx, userID, workspaceID, issueID, runID)
	if err == nil {
		s.follow(ctx, plan)
	}

	return err
}

// CancelAnyRun stops a run for an administrator; with false it is over, or being stopped.
func (s *Service) CancelAnyRun(ctx context.Context, runID string) (open bool, err error) {
	open, plan, err := s.cfg.Store.CancelAnyIssueRun(ctx, runID)
	if err == nil {
		s.follow(ctx, plan)
	}

	return open, err
}

// FailRun ends a run as failed for an administrator: its issue is blocked.
func (s *Service) FailRun(ctx context.Context, runID, code, message string) error {
	plan, err := s.cfg.Store.BlockIssueRun(ctx, runID, code, message)
	if err == nil {
		s.follow(ctx, plan)
	}

	return err
}

// DeleteWorkspace removes a workspace and stops the runs that work in it.
func (s *Service) DeleteWorkspace(ctx context.Context, userID, id string) error {
	plan, err := s.cfg.Store.DeleteWorkspace(ctx, userID, id)
	if err == nil {
		s.follow(ctx, plan)
	}

	return err
}

// follow does what follows from a change that was stored. What fails is repaired.
func (s *Service) follow(ctx context.Context, plan board.IssueRunPlan) {
	ctx = context.WithoutCancel(ctx)
	for _, run := range plan.Stop {
		if err := s.Stop(ctx, run); err != nil {
			s.cfg.Logger.Warn("failed to stop an issue run, retrying", "session_id", run.SessionID, "error", err)
		}
	}

	for _, agentID := range plan.Agents {
		if err := s.Dispatch(ctx, agentID); err != nil {
			s.cfg.Logger.Warn("failed to start issue runs, retrying", "agent_id", agentID, "error", err)
		}
	}

	for _, runID := range plan.Answer {
		if err := s.answerIn(ctx, runID); err != nil {
			s.cfg.Logger.Warn("failed to answer an issue run, retrying", "run_id", runID, "error", err)
		}
	}
}

// Dispatch gives the runs of an agent their turn, as many as it works on at once.
func (s *Service) Dispatch(ctx context.Context, agentID string) error {
	started, err := s.cfg.Store.DispatchRuns(ctx, agentID)
	for _, runID := range started {
		err = errors.Join(err, s.cfg.Runs.StartIssueRun(ctx, runID))
	}

	return err
}

// Stop stops the chat of a run, and no other of its session.
func (s *Service) Stop(ctx context.Context, run domain.RunChat) error {
	err := s.cfg.Chats.StopChat(ctx, caller(run.OwnerID), run.SessionID, run.ChatID)
	if domain.HasCode(err, domain.CodeSessionNotFound) {
		return nil
	}

	return err
}

func caller(ownerID string) domain.Caller { return domain.Caller{User: domain.User{ID: ownerID}} }
