package api_test

import (
	"context"
	"strings"

	"everloop/domain"
	"everloop/domain/history"
)

// past is a history with one checkpoint, "k", and two branches, "a" and "b".
type past struct{}

func (past) known(id string) error {
	if id != "k" {
		return domain.Newf(domain.NotFound, "checkpoint_not_found", "checkpoint %s does not exist in this session", id)
	}

	return nil
}

func (past) Checkpoints(context.Context, string) ([]history.Checkpoint, error) {
	return []history.Checkpoint{{ID: "k", Kind: domain.CheckpointUserTurn}}, nil
}

func (past) Tree(context.Context, domain.Session) (history.History, error) {
	return history.History{}, nil
}

func (p past) Checkout(_ context.Context, _, checkpointID string, position history.CheckoutPosition) (history.Checkout, error) {
	shown := history.Checkout{
		CheckpointID: checkpointID, Position: position, Turns: []domain.Turn{}, Files: []history.FileDifference{},
	}

	return shown, p.known(checkpointID)
}

func (past) Compare(_ context.Context, sessionID, _, _ string) (history.Comparison, error) {
	return history.Comparison{SessionID: sessionID, Turns: []history.TurnDifference{}, Files: []history.FileDifference{}}, nil
}

func (p past) Rewind(_ context.Context, _ domain.User, sessionID, checkpointID string) (history.Moved, error) {
	return history.Moved{
		SessionID:      sessionID,
		CheckpointID:   &checkpointID,
		RemovedTurnIDs: []string{},
		Files:          history.RestoredFiles{Skipped: []history.SkippedFile{}},
	}, p.known(checkpointID)
}

func (p past) SwitchBranch(ctx context.Context, owner domain.User, sessionID, checkpointID string) (history.Moved, error) {
	return p.Rewind(ctx, owner, sessionID, checkpointID)
}

var historyWalk = []call{
	{
		method:  "GET",
		path:    "/api/sessions/{session_id}/checkpoints",
		scope:   "sessions:read",
		url:     "/api/sessions/{s}/checkpoints",
		status:  200,
		missing: "/api/sessions/" + none + "/checkpoints",
	},
	{
		method:  "GET",
		path:    "/api/sessions/{session_id}/history",
		scope:   "sessions:read",
		url:     "/api/sessions/{s}/history",
		status:  200,
		missing: "/api/sessions/" + none + "/history",
	},
	{
		method:  "GET",
		path:    "/api/sessions/{session_id}/compare",
		scope:   "sessions:read",
		url:     "/api/sessions/{s}/compare?base=a&other=b",
		status:  200,
		missing: "/api/sessions/" + none + "/compare?base=a&other=b",
		bad: []bad{
			{path: "/api/sessions/{s}/compare?base=a", at: "query.other"},
			{path: "/api/sessions/{s}/compare?other=b", at: "query.base"},
			{path: "/api/sessions/{s}/compare?base=&other=b", at: "query.base"},
		},
	},
	{
		method:  "POST",
		path:    "/api/sessions/{session_id}/checkout",
		scope:   "sessions:read",
		url:     "/api/sessions/{s}/checkout",
		hasBody: true,
		status:  200,
		body:    `{"checkpoint_id":"k"}`,
		missing: "/api/sessions/" + none + "/checkout",
		bad: append(
			badCheckpoint(),
			bad{
				body: `{"checkpoint_id":"k","position":"after"}`,
				at:   "body.position",
			},
			bad{body: `{"checkpoint_id":"k","position":1}`, at: "body.position"},
		),
	},
	{
		method:  "POST",
		path:    "/api/sessions/{session_id}/rewind",
		scope:   "sessions:write",
		url:     "/api/sessions/{s}/rewind",
		hasBody: true,
		status:  200,
		body:    `{"checkpoint_id":"k"}`,
		missing: "/api/sessions/" + none + "/rewind",
		bad:     badCheckpoint(),
	},
	{
		method:  "POST",
		path:    "/api/sessions/{session_id}/switch-branch",
		scope:   "sessions:write",
		url:     "/api/sessions/{s}/switch-branch",
		hasBody: true,
		status:  200,
		body:    `{"checkpoint_id":"k"}`,
		missing: "/api/sessions/" + none + "/switch-branch",
		bad:     badCheckpoint(),
	},
}

// badCheckpoint are bodies that name no checkpoint as they should.
func badCheckpoint() []bad {
	return []bad{
		{body: `{}`, at: "body.checkpoint_id"},
		{body: `{"checkpoint_id":null}`, at: "body.checkpoint_id"},
		{body: `{"checkpoint_id":7}`, at: "body.checkpoint_id"},
		{body: `{"checkpoint_id":""}`, at: "body.checkpoint_id"},
		{body: `{"checkpoint_id":"` + strings.Repeat("x", 129) + `"}`, at: "body.checkpoint_id"},
	}
}
