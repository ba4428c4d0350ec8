package api

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
)

// History looks at a session's past and goes back to it. The caller was let in
// where it only looks, and owns the session where it moves it.
type History interface {
	Checkpoints(ctx context.Context, sessionID string) ([]domain.Checkpoint, error)
	Tree(ctx context.Context, session domain.Session) (domain.History, error)
	Checkout(ctx context.Context, sessionID, checkpointID string, position domain.CheckoutPosition) (domain.Checkout, error)
	Compare(ctx context.Context, sessionID, base, other string) (domain.Comparison, error)
	Rewind(ctx context.Context, owner domain.User, sessionID, checkpointID string) (domain.MovedHistory, error)
	SwitchBranch(ctx context.Context, owner domain.User, sessionID, checkpointID string) (domain.MovedHistory, error)
}

// rewindResult is the rewind result of shapes.md section 3, with the message to
// edit.
type rewindResult struct {
	SessionID             string               `json:"session_id"`
	CheckpointID          *string              `json:"checkpoint_id"`
	BranchID              string               `json:"branch_id"`
	PreviousBranchID      string               `json:"previous_branch_id"`
	PreRewindCheckpointID string               `json:"pre_rewind_checkpoint_id" doc:"Where the session stood: switching to it brings the old branch back."`
	HeadTurnID            *string              `json:"head_turn_id"`
	RemovedTurnIDs        []string             `json:"removed_turn_ids" doc:"Turns that stay on the branch that was left."`
	Message               any                  `json:"message" doc:"The user message that the session was taken back before: text, or an array of parts; null where there is none."`
	Files                 domain.RestoredFiles `json:"files"`
	Cancelled             domain.Cancelled     `json:"cancelled"`
}

// branchResult is the branch switch result of shapes.md section 3.
type branchResult struct {
	SessionID        string               `json:"session_id"`
	BranchID         string               `json:"branch_id"`
	PreviousBranchID string               `json:"previous_branch_id"`
	HeadTurnID       *string              `json:"head_turn_id"`
	CheckpointID     *string              `json:"checkpoint_id"`
	Files            domain.RestoredFiles `json:"files"`
	Cancelled        domain.Cancelled     `json:"cancelled"`
}

type moveInput struct {
	SessionRef
	Body struct {
		CheckpointID string `json:"checkpoint_id" minLength:"1" maxLength:"128"`
	}
}

func (s *server) historyRoutes() {
	const path, tag = "/api/sessions/{session_id}", "History"
	look := func(id, path, summary string) operation {
		return operation{id: id, method: fiber.MethodGet, path: path, tag: tag, summary: summary, scope: auth.SessionsRead}
	}
	add(s, look("list-checkpoints", path+"/checkpoints", "The points that a session can be taken back to"), s.checkpoints)
	add(s, look("get-history", path+"/history", "The conversation tree of a session"), s.history)
	add(s, look("compare-branches", path+"/compare", "Two branches of a session held against each other"), s.compareBranches)
	add(s, operation{
		id: "checkout", method: fiber.MethodPost, path: path + "/checkout", tag: tag, scope: auth.SessionsRead,
		summary: "Look at a session as it was at a checkpoint; nothing is changed",
	}, s.checkout)
	// Files may take longer than other requests.
	add(s, operation{
		id: "rewind", method: fiber.MethodPost, path: path + "/rewind", tag: tag, scope: auth.SessionsWrite, stream: true,
		summary: "Take a session back to before a checkpoint's turn, conversation and files",
	}, s.rewind)
	add(s, operation{
		id: "switch-branch", method: fiber.MethodPost, path: path + "/switch-branch", tag: tag, scope: auth.SessionsWrite, stream: true,
		summary: "Take a session to the newest end of a checkpoint's branch, conversation and files",
	}, s.switchBranch)
}

func (s *server) checkpoints(ctx context.Context, in *SessionRef) (*body[[]domain.Checkpoint], error) {
	if _, _, err := s.readable(ctx, in.SessionID); err != nil {
		return nil, err
	}
	list, err := s.History.Checkpoints(ctx, in.SessionID)
	return answer(orEmpty(list), err)
}

func (s *server) history(ctx context.Context, in *SessionRef) (*body[domain.History], error) {
	session, _, err := s.readable(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}
	tree, err := s.History.Tree(ctx, session)
	tree.Nodes, tree.Branches = orEmpty(tree.Nodes), orEmpty(tree.Branches)
	return answer(tree, err)
}

func (s *server) compareBranches(ctx context.Context, in *struct {
	SessionRef
	Base  string `query:"base" required:"true" minLength:"1" doc:"A branch_id of the history."`
	Other string `query:"other" required:"true" minLength:"1" doc:"Another branch_id of the history."`
},
) (*body[domain.Comparison], error) {
	if _, _, err := s.readable(ctx, in.SessionID); err != nil {
		return nil, err
	}
	return answer(s.History.Compare(ctx, in.SessionID, in.Base, in.Other))
}

func (s *server) checkout(ctx context.Context, in *struct {
	SessionRef
	Body struct {
		CheckpointID string `json:"checkpoint_id" minLength:"1" maxLength:"128"`

		Position string `json:"position,omitempty" enum:"before,turn_end" default:"before" doc:"before: before the checkpoint's turn; turn_end: at the end of the chat that the turn started."`
	}
},
) (*body[domain.Checkout], error) {
	if _, _, err := s.readable(ctx, in.SessionID); err != nil {
		return nil, err
	}
	view, err := s.History.Checkout(ctx, in.SessionID, in.Body.CheckpointID, domain.CheckoutPosition(in.Body.Position))
	for i := range view.Turns {
		view.Turns[i].Blocks, view.Turns[i].ToolCalls = orEmpty(view.Turns[i].Blocks), orEmpty(view.Turns[i].ToolCalls)
	}
	return answer(view, err)
}

func (s *server) rewind(ctx context.Context, in *moveInput) (*body[rewindResult], error) {
	caller := callerOf(ctx).User
	if _, err := s.Store.OwnSession(ctx, caller, in.SessionID); err != nil {
		return nil, err
	}
	moved, err := s.History.Rewind(ctx, caller, in.SessionID, in.Body.CheckpointID)
	return answer(rewindResult{
		SessionID: moved.SessionID, CheckpointID: moved.CheckpointID, BranchID: moved.BranchID, PreviousBranchID: moved.PreviousBranchID,
		PreRewindCheckpointID: moved.PreRewindID, HeadTurnID: moved.HeadTurnID, RemovedTurnIDs: moved.RemovedTurnIDs,
		Message: editable(moved.Message), Files: moved.Files, Cancelled: moved.Cancelled,
	}, err)
}

func (s *server) switchBranch(ctx context.Context, in *moveInput) (*body[branchResult], error) {
	caller := callerOf(ctx).User
	if _, err := s.Store.OwnSession(ctx, caller, in.SessionID); err != nil {
		return nil, err
	}
	moved, err := s.History.SwitchBranch(ctx, caller, in.SessionID, in.Body.CheckpointID)
	return answer(branchResult{
		SessionID: moved.SessionID, BranchID: moved.BranchID, PreviousBranchID: moved.PreviousBranchID, HeadTurnID: moved.HeadTurnID,
		CheckpointID: moved.CheckpointID, Files: moved.Files, Cancelled: moved.Cancelled,
	}, err)
}

// editable gives a message in the form in which it is sent: one text as a
// string, anything else as parts.
func editable(parts []domain.ContentPart) any {
	switch {
	case len(parts) == 0:
		return nil
	case len(parts) == 1 && parts[0].ImageURL == nil:
		return parts[0].Text
	default:
		return parts
	}
}
