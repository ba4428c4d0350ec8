package session

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"everloop/api/access"
	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/domain/history"
)

// History looks at a session's past and goes back to it. The caller is authorised
// where it only looks, and owns the session where it moves it.
type History interface {
	Checkpoints(ctx context.Context, sessionID domain.SessionID) ([]history.Checkpoint, error)
	Tree(ctx context.Context, session domain.Session) (history.History, error)
	Checkout(
		ctx context.Context,
		sessionID domain.SessionID,
		checkpointID domain.CheckpointID,
		position history.CheckoutPosition,
	) (history.Checkout, error)
	Compare(ctx context.Context, sessionID domain.SessionID, base, other domain.BranchID) (history.Comparison, error)
	// CheckpointChanges compares a checkpoint with another one; an empty to is the workspace.
	CheckpointChanges(
		ctx context.Context,
		session domain.Session,
		checkpointID domain.CheckpointID,
		to domain.CheckpointID,
		offset, limit int,
	) (
		page []history.FileComparison, total int, err error)
	Rewind(ctx context.Context, owner domain.User, sessionID domain.SessionID, checkpointID domain.CheckpointID) (history.Moved, error)
	SwitchBranch(
		ctx context.Context,
		owner domain.User,
		sessionID domain.SessionID,
		checkpointID domain.CheckpointID,
	) (history.Moved, error)
}

// rewindResult is the result of a rewind (docs/history.md), with the message to
// edit.
type rewindResult struct {
	SessionID             domain.SessionID      `json:"session_id" doc:"The session." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	CheckpointID          *domain.CheckpointID  `json:"checkpoint_id" doc:"The checkpoint." example:"01a1ff63-2f62-7310-b604-777ea9c14e81"`
	BranchID              domain.BranchID       `json:"branch_id" doc:"The branch of the history." example:"01a1ff63-3ad9-75a5-8ba9-a6ce1712e877"`
	PreviousBranchID      domain.BranchID       `json:"previous_branch_id" doc:"The previous branch." example:"01a1ff63-2e0c-7d38-ad35-c6ac2745e527"`
	PreRewindCheckpointID domain.CheckpointID   `json:"pre_rewind_checkpoint_id" doc:"Where the session stood: switching to it brings the old branch back." example:"01a1ff63-3ad0-7847-ab54-912b03585cdc"`
	HeadTurnID            *domain.TurnID        `json:"head_turn_id" doc:"The newest turn; null: there is none." example:"01a1ff63-2f13-77e0-acac-9760ccfbac8e"`
	RemovedTurnIDs        []domain.TurnID       `json:"removed_turn_ids" doc:"Turns that stay on the branch that was left."`
	Message               any                   `json:"message" doc:"The user message that the session was taken back before: text, or an array of parts; null where there is none."`
	Files                 history.RestoredFiles `json:"files" doc:"The result for the files."`
	Cancelled             history.Cancelled     `json:"cancelled" doc:"The work that was cancelled."`
}

// branchResult is the result of a change of branch (docs/history.md).
type branchResult struct {
	SessionID        domain.SessionID      `json:"session_id" doc:"The session." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	BranchID         domain.BranchID       `json:"branch_id" doc:"The branch of the history." example:"01a1ff63-2e0c-7d38-ad35-c6ac2745e527"`
	PreviousBranchID domain.BranchID       `json:"previous_branch_id" doc:"The previous branch." example:"01a1ff63-3ad9-75a5-8ba9-a6ce1712e877"`
	HeadTurnID       *domain.TurnID        `json:"head_turn_id" doc:"The newest turn; null: there is none." example:"01a1ff63-397c-7f17-ba35-1608d8c2e331"`
	CheckpointID     *domain.CheckpointID  `json:"checkpoint_id" doc:"The checkpoint." example:"01a1ff63-3ad0-7847-ab54-912b03585cdc"`
	Files            history.RestoredFiles `json:"files" doc:"The result for the files."`
	Cancelled        history.Cancelled     `json:"cancelled" doc:"The work that was cancelled."`
}

type moveInput struct {
	access.SessionRef
	Body struct {
		CheckpointID domain.CheckpointID `json:"checkpoint_id" minLength:"1" maxLength:"128" doc:"The checkpoint." example:"01a1ff63-2f62-7310-b604-777ea9c14e81"`
	}
}

// HistoryAPI shows and moves between checkpoints and branches.
type HistoryAPI struct {
	access.Sessions
	History History
}

// Register adds the operations of the area to the interface.
func (a *HistoryAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "list-checkpoints", Method: fiber.MethodGet, Path: "/api/sessions/{session_id}/checkpoints", Tag: "History",
		Summary:     "List the checkpoints of a session",
		Description: "Each user turn and each step that changed files creates a checkpoint.",
		Scope:       auth.SessionsRead,
	}, a.checkpoints)
	httpx.Register(r, httpx.Operation{
		ID: "get-history", Method: fiber.MethodGet, Path: "/api/sessions/{session_id}/history", Tag: "History",
		Summary: "Get the conversation tree of a session",
		Scope:   auth.SessionsRead,
	}, a.tree)
	httpx.Register(r, httpx.Operation{
		ID: "compare-branches", Method: fiber.MethodGet, Path: "/api/sessions/{session_id}/compare", Tag: "History",
		Summary:     "Compare two branches of a session",
		Description: "Returns which turns and files differ since the branches forked, and what each branch used.",
		Scope:       auth.SessionsRead,
		Errors:      httpx.Codes{404: "branch_not_found"},
	}, a.compareBranches)
	httpx.Register(r, httpx.Operation{
		ID: "checkout", Method: fiber.MethodPost, Path: "/api/sessions/{session_id}/checkout", Tag: "History",
		Summary:     "Show a session as it was at a checkpoint",
		Description: "Returns the turns and the files at the checkpoint; nothing is changed.",
		Scope:       auth.SessionsRead,
		Errors:      httpx.Codes{404: "checkpoint_not_found snapshot_not_found", 422: "invalid_snapshot snapshot_damaged"},
		Example:     `{"checkpoint_id": "01a1ff63-2f62-7310-b604-777ea9c14e81", "position": "before"}`,
	}, a.checkout)
	httpx.Register(r, httpx.Operation{
		ID:      "list-checkpoint-changes",
		Method:  fiber.MethodGet,
		Path:    "/api/sessions/{session_id}/checkpoints/{checkpoint_id}/changes",
		Tag:     "History",
		Summary: "List the files that changed since a checkpoint",
		Description: "Compares the files at the checkpoint with those of the workspace, or of another checkpoint. Directories are not " +
			"listed. Sorted by path.",
		Scope: auth.SessionsRead,
		Errors: httpx.Codes{
			404: "checkpoint_not_found snapshot_not_found",
			413: "too_many_files",
			422: "invalid_snapshot snapshot_damaged",
		},
	}, a.checkpointChanges)
	// Files may take longer than other requests.
	httpx.Register(r, httpx.Operation{
		ID: "rewind", Method: fiber.MethodPost, Path: "/api/sessions/{session_id}/rewind", Tag: "History",
		Summary: "Rewind conversation and files to a checkpoint",
		Description: "The session returns to the state before the turn of the checkpoint. What is taken back stays on the previous " +
			"branch: switch to pre_rewind_checkpoint_id to restore it. The session must be idle.",
		Scope: auth.SessionsWrite, Stream: true,
		Errors: httpx.Codes{
			404: "checkpoint_not_found",
			409: "session_busy",
			413: "too_many_files no_space",
			503: "disk_full history_not_changed history_pending snapshot_failed",
		},
		Example: `{"checkpoint_id": "01a1ff63-2f62-7310-b604-777ea9c14e81"}`,
	}, a.rewind)
	httpx.Register(r, httpx.Operation{
		ID: "switch-branch", Method: fiber.MethodPost, Path: "/api/sessions/{session_id}/switch-branch", Tag: "History",
		Summary: "Switch to the branch of a checkpoint",
		Description: "The session moves to the newest turn of that branch, and its files to their state there. The session must be " +
			"idle.",
		Scope: auth.SessionsWrite, Stream: true,
		Errors: httpx.Codes{
			404: "checkpoint_not_found",
			409: "session_busy",
			413: "too_many_files no_space",
			503: "disk_full history_not_changed history_pending snapshot_failed",
		},
		Example: `{"checkpoint_id": "01a1ff63-3ad0-7847-ab54-912b03585cdc"}`,
	}, a.switchBranch)
}

func (a *HistoryAPI) checkpoints(ctx context.Context, in *access.SessionRef) (*httpx.Body[[]history.Checkpoint], error) {
	if _, _, err := a.Readable(ctx, in.SessionID); err != nil {
		return nil, err
	}

	list, err := a.History.Checkpoints(ctx, in.SessionID)

	return httpx.Answer(fields.OrEmpty(list), err)
}

func (a *HistoryAPI) tree(ctx context.Context, in *access.SessionRef) (*httpx.Body[history.History], error) {
	session, _, err := a.Readable(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}

	tree, err := a.History.Tree(ctx, session)
	tree.Nodes, tree.Branches = fields.OrEmpty(tree.Nodes), fields.OrEmpty(tree.Branches)

	return httpx.Answer(tree, err)
}

func (a *HistoryAPI) compareBranches(ctx context.Context, in *struct {
	access.SessionRef
	Base  domain.BranchID `query:"base" required:"true" minLength:"1" doc:"A branch_id of the history." example:"01a1fd9b-4f0b-74a9-8a1e-0a3f5e8b9c10"`
	Other domain.BranchID `query:"other" required:"true" minLength:"1" doc:"Another branch_id of the history." example:"01a1fd9c-1d20-7b11-9d40-6f0c7a2e4b55"`
},
) (*httpx.Body[history.Comparison], error) {
	if _, _, err := a.Readable(ctx, in.SessionID); err != nil {
		return nil, err
	}

	return httpx.Answer(a.History.Compare(ctx, in.SessionID, in.Base, in.Other))
}

func (a *HistoryAPI) checkout(ctx context.Context, in *struct {
	access.SessionRef
	Body struct {
		CheckpointID domain.CheckpointID `json:"checkpoint_id" minLength:"1" maxLength:"128" doc:"The checkpoint." example:"01a1ff63-2f62-7310-b604-777ea9c14e81"`

		Position string `json:"position,omitempty" enum:"before,turn_end" default:"before" doc:"before: before the checkpoint's turn; turn_end: at the end of the chat that the turn started."`
	}
},
) (*httpx.Body[history.Checkout], error) {
	if _, _, err := a.Readable(ctx, in.SessionID); err != nil {
		return nil, err
	}

	view, err := a.History.Checkout(ctx, in.SessionID, in.Body.CheckpointID, history.CheckoutPosition(in.Body.Position))
	for i := range view.Turns {
		view.Turns[i].Blocks, view.Turns[i].ToolCalls = fields.OrEmpty(view.Turns[i].Blocks), fields.OrEmpty(view.Turns[i].ToolCalls)
	}

	return httpx.Answer(view, err)
}

func (a *HistoryAPI) checkpointChanges(ctx context.Context, in *struct {
	access.CheckpointRef
	To     domain.CheckpointID `query:"to" maxLength:"128" doc:"Another checkpoint to compare with; default: the workspace as it is." example:"01a1ff63-3ad0-7847-ab54-912b03585cdc"`
	Offset int                 `query:"offset" default:"0" minimum:"0" maximum:"1000000" doc:"Number of entries to skip." example:"0"`
	Limit  int                 `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Maximum number of entries." example:"100"`
},
) (*httpx.Body[fields.List[history.FileComparison]], error) {
	session, _, err := a.Readable(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}

	page, total, err := a.History.CheckpointChanges(ctx, session, in.CheckpointID, in.To, in.Offset, in.Limit)

	return httpx.Answer(fields.List[history.FileComparison]{Items: fields.OrEmpty(page), Total: total}, err)
}

func (a *HistoryAPI) rewind(ctx context.Context, in *moveInput) (*httpx.Body[rewindResult], error) {
	caller := httpx.CallerOf(ctx).User
	if _, err := a.Store.OwnSession(ctx, caller, in.SessionID); err != nil {
		return nil, err
	}

	moved, err := a.History.Rewind(ctx, caller, in.SessionID, in.Body.CheckpointID)

	return httpx.Answer(rewindResult{
		SessionID: moved.SessionID, CheckpointID: moved.CheckpointID, BranchID: moved.BranchID, PreviousBranchID: moved.PreviousBranchID,
		PreRewindCheckpointID: moved.PreRewindID, HeadTurnID: moved.HeadTurnID, RemovedTurnIDs: moved.RemovedTurnIDs,
		Message: editable(moved.Message), Files: moved.Files, Cancelled: moved.Cancelled,
	}, err)
}

func (a *HistoryAPI) switchBranch(ctx context.Context, in *moveInput) (*httpx.Body[branchResult], error) {
	caller := httpx.CallerOf(ctx).User
	if _, err := a.Store.OwnSession(ctx, caller, in.SessionID); err != nil {
		return nil, err
	}

	moved, err := a.History.SwitchBranch(ctx, caller, in.SessionID, in.Body.CheckpointID)

	return httpx.Answer(branchResult{
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
	case len(parts) == 1 && parts[0].Attachment() == "":
		return parts[0].Text
	default:
		return parts
	}
}
