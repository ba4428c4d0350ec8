package api_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/history"
)

// past is a history with one checkpoint, "k", and two branches, "a" and "b".
type past struct{}

func (past) known(id domain.CheckpointID) error {
	if id != "k" {
		return domain.Newf(domain.NotFound, "checkpoint_not_found", "checkpoint %s does not exist in this session", id)
	}

	return nil
}

func (past) Checkpoints(context.Context, domain.SessionID) ([]history.Checkpoint, error) {
	return []history.Checkpoint{{ID: "k", Kind: domain.CheckpointUserTurn}}, nil
}

func (past) Tree(context.Context, domain.Session) (history.History, error) {
	return history.History{}, nil
}

func (p past) Checkout(
	_ context.Context,
	_ domain.SessionID,
	checkpointID domain.CheckpointID,
	position history.CheckoutPosition,
) (history.Checkout, error) {
	shown := history.Checkout{
		CheckpointID: checkpointID, Position: position, Turns: []domain.Turn{}, Files: []history.FileDifference{},
	}

	return shown, p.known(checkpointID)
}

func (past) Compare(_ context.Context, sessionID domain.SessionID, _, _ domain.BranchID) (history.Comparison, error) {
	return history.Comparison{SessionID: sessionID, Turns: []history.TurnDifference{}, Files: []history.FileDifference{}}, nil
}

func (p past) CheckpointChanges(
	_ context.Context, _ domain.Session, checkpointID domain.CheckpointID, to domain.CheckpointID, offset, limit int,
) ([]history.FileComparison, int, error) {
	one, two := int64(1), int64(2)
	files := []history.FileComparison{
		{Path: "a.txt", Change: "created", Type: "file", SizeAfter: &one},
		{Path: "b.txt", Change: "modified", Type: "file", SizeBefore: &one, SizeAfter: &two},
		{Path: "c.txt", Change: "deleted", Type: "link", SizeBefore: &one},
	}
	err := p.known(checkpointID)

	if to != "" && err == nil {
		files, err = files[:1], p.known(to)
	}

	from := min(offset, len(files))

	return files[from:min(from+limit, len(files))], len(files), err
}

// OpenFile gives the file a/page.html of the checkpoint "k".
func (p past) OpenFile(
	_ context.Context,
	_ domain.SessionID,
	checkpointID domain.CheckpointID,
	path string,
) (io.ReadSeekCloser, domain.FileInfo, error) {
	if err := p.known(checkpointID); err != nil {
		return nil, domain.FileInfo{}, err
	}

	if path != "a/page.html" {
		return nil, domain.FileInfo{}, domain.Newf(domain.NotFound, domain.CodeFileNotFound, "there is no such file")
	}

	return closing{strings.NewReader("0123456789")}, domain.FileInfo{Name: "page.html", Size: 10, ETag: `"v1"`}, nil
}

// closing is a content in memory.
type closing struct{ io.ReadSeeker }

func (closing) Close() error { return nil }

func (p past) Rewind(
	_ context.Context,
	_ domain.User,
	sessionID domain.SessionID,
	checkpointID domain.CheckpointID,
) (history.Moved, error) {
	return history.Moved{
		SessionID:      sessionID,
		CheckpointID:   &checkpointID,
		RemovedTurnIDs: []domain.TurnID{},
		Files:          history.RestoredFiles{Skipped: []history.SkippedFile{}},
	}, p.known(checkpointID)
}

func (p past) SwitchBranch(
	ctx context.Context,
	owner domain.User,
	sessionID domain.SessionID,
	checkpointID domain.CheckpointID,
) (history.Moved, error) {
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
		method:  "GET",
		path:    "/api/sessions/{session_id}/checkpoints/{checkpoint_id}/changes",
		scope:   "sessions:read",
		url:     "/api/sessions/{s}/checkpoints/k/changes",
		status:  200,
		missing: "/api/sessions/{s}/checkpoints/none/changes",
		bad: []bad{
			{path: "/api/sessions/{s}/checkpoints/k/changes?limit=0", at: "query.limit"},
			{path: "/api/sessions/{s}/checkpoints/k/changes?limit=1001", at: "query.limit"},
			{path: "/api/sessions/{s}/checkpoints/k/changes?offset=-1", at: "query.offset"},
		},
	},
	{
		method:  "GET",
		path:    "/api/sessions/{session_id}/checkpoints/{checkpoint_id}/files/{file_path}",
		scope:   "files",
		url:     "/api/sessions/{s}/checkpoints/k/files/a/page.html",
		status:  200,
		missing: "/api/sessions/{s}/checkpoints/k/files/none",
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

func TestCheckpointChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := "/api/sessions/" + w.session(`{}`) + "/checkpoints/"

	require.JSONEq(t, `{"items":[
		{"path":"b.txt","change":"modified","type":"file","size_before":1,"size_after":2},
		{"path":"c.txt","change":"deleted","type":"link","size_before":1,"size_after":null}
	],"total":3}`, w.do("GET", base+"k/changes?offset=1&limit=2", w.ann, "").text)
	require.JSONEq(t, `{"items":[],"total":3}`, w.do("GET", base+"k/changes?offset=9", w.ann, "").text)
	require.JSONEq(t, `{"items":[{"path":"a.txt","change":"created","type":"file","size_before":null,"size_after":1}],"total":1}`,
		w.do("GET", base+"k/changes?to=k", w.ann, "").text)
	w.do("GET", base+"none/changes", w.ann, "").code(404, "checkpoint_not_found")
	w.do("GET", base+"k/changes?to=none", w.ann, "").code(404, "checkpoint_not_found")
	w.do("GET", base+"k/changes", w.bob, "").code(404, "session_not_found")
}

func TestCheckpointFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := "/api/sessions/" + w.session(`{}`) + "/checkpoints/k/files/a/page.html"

	r := w.do("GET", at, w.ann, "")
	require.Equal(t, "0123456789", r.text)
	require.Equal(t, "text/html; charset=utf-8", r.header.Get("Content-Type"))
	require.Equal(t, `"v1"`, r.header.Get("ETag"))
	require.Equal(t, "inline; filename=page.html", r.header.Get("Content-Disposition"))
	require.Contains(t, r.header.Get("Content-Security-Policy"), "sandbox", "a page of an agent is no page of the service")

	require.Equal(t, "234", w.do("GET", at, w.ann, "", header("Range", "bytes=2-4")).text)
	w.do("GET", at, w.ann, "", header("Range", "bytes=10-")).code(416, "range_not_satisfiable")
	require.Equal(t, 304, w.do("GET", at, w.ann, "", header("If-None-Match", `"v1"`)).status)
	require.Equal(t, "attachment; filename=page.html", w.do("GET", at+"?download=true", w.ann, "").header.Get("Content-Disposition"))
	w.do("GET", strings.Replace(at, "/k/", "/none/", 1), w.ann, "").code(404, "checkpoint_not_found")
	w.do("GET", at+".old", w.ann, "").code(404, "file_not_found")
	w.do("GET", at, w.bob, "").code(404, "session_not_found")
}
