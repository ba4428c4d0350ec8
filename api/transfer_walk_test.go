package api_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"time"

	"everloop/api/session"
	"everloop/domain"
	"everloop/domain/replay"
	"everloop/domain/transfer"
)

// transferWalk is replays, public links, what is carried out of a session and
// into one, and extra info.
var transferWalk = []call{
	{
		method:  "POST",
		path:    "/api/sessions/{session_id}/replay",
		scope:   "sessions:write",
		url:     "/api/sessions/{s}/replay",
		hasBody: true,
		status:  200,
		body:    `{"speed":5,"unknown":1}`,
		missing: "/api/sessions/" + none + "/replay",
		bad: []bad{
			{body: `{}`, at: "body.speed"},
			{body: `{"speed":3}`, at: "body.speed"},
			{body: `{"speed":"1"}`, at: "body.speed"},
			{body: `{"speed":1.5}`, at: "body.speed"},
			{body: `{"speed":null}`, at: "body.speed"},
		},
	},
	{
		method:  "GET",
		path:    "/api/sessions/{session_id}/replay/preview",
		scope:   "sessions:read",
		url:     "/api/sessions/{s}/replay/preview",
		status:  200,
		missing: "/api/sessions/" + none + "/replay/preview",
	},
	{
		method:  "PATCH",
		path:    "/api/sessions/{session_id}/replay",
		scope:   "sessions:write",
		url:     "/api/sessions/{s}/replay",
		hasBody: true,
		status:  200,
		body:    `{"speed":null,"status":null}`,
		missing: "/api/sessions/" + none + "/replay",
		bad: []bad{
			{
				body: `{"speed":0}`,
				at:   "body.speed",
			},
			{body: `{"speed":[]}`, at: "body.speed"},
			{body: `{"status":"playing"}`, at: "body.status"},
			{body: `{"status":5}`, at: "body.status"},
		},
	},

	{
		method:  "POST",
		path:    "/api/sessions/{session_id}/share",
		scope:   "sessions:write",
		url:     "/api/sessions/{s}/share",
		hasBody: true,
		status:  200,
		missing: "/api/sessions/" + none + "/share",
		bad: []bad{
			{body: `{"ttl_seconds":0}`, at: "body.ttl_seconds"},
			{body: `{"ttl_seconds":7776001}`, at: "body.ttl_seconds"},
			{body: `{"ttl_seconds":"1"}`, at: "body.ttl_seconds"},
			{body: `{"redact":[]}`, at: "body.redact"},
			{body: `{"redact":{"thinking":"no"}}`, at: "body.redact.thinking"},
		},
	},
	{
		method:  "DELETE",
		path:    "/api/sessions/{session_id}/share/{token}",
		scope:   "sessions:write",
		url:     "/api/sessions/{s}/share/" + shownToken,
		status:  200,
		missing: "/api/sessions/{s}/share/none",
	},
	{
		method:  "GET",
		path:    "/api/share/{token}",
		scope:   "public",
		url:     "/api/share/" + shownToken,
		status:  200,
		public:  true,
		missing: "/api/share/none",
		bad: []bad{
			{path: "/api/share/" + strings.Repeat("0", 201), at: "path.token"},
		},
	},
	{
		method:  "GET",
		path:    "/api/share/{token}/attachments/{attachment}",
		scope:   "public",
		url:     "/api/share/" + shownToken + "/attachments/" + picture,
		status:  200,
		public:  true,
		missing: "/api/share/none/attachments/" + picture,
		bad:     []bad{{path: "/api/share/" + shownToken + "/attachments/x", at: "path.attachment"}},
	},

	{
		method:  "GET",
		path:    "/api/sessions/{session_id}/export",
		scope:   "sessions:read",
		url:     "/api/sessions/{s}/export",
		status:  200,
		missing: "/api/sessions/" + none + "/export",
	},
	// Their forms are no JSON objects: see TestForms and TestTranscribe.
	{
		method: "POST",
		path:   "/api/sessions/preview-import",
		scope:  "sessions:write",
		url:    "/api/sessions/preview-import",
		stream: true,
		status: 200,
	},
	{method: "POST", path: "/api/transcribe", scope: "chat", url: "/api/transcribe", stream: true, status: 200},
	{method: "POST", path: "/api/sessions/import", scope: "sessions:write", url: "/api/sessions/import", stream: true, status: 200},

	{
		method:  "GET",
		path:    "/api/sessions/{session_id}/extra_info",
		scope:   "sessions:read",
		url:     "/api/sessions/{s}/extra_info",
		status:  200,
		missing: "/api/sessions/" + none + "/extra_info",
	},
	{
		method:  "POST",
		path:    "/api/sessions/{session_id}/upset_extra_info",
		scope:   "sessions:write",
		url:     "/api/sessions/{s}/upset_extra_info",
		hasBody: true,
		status:  200,
		body:    `{"extra":{"task_id":"t"}}`,
		missing: "/api/sessions/" + none + "/upset_extra_info",
		bad: []bad{
			{
				body: `{}`,
				at:   "body.extra",
			},
			{body: `{"extra":null}`, at: "body.extra"},
			{body: `{"extra":[]}`, at: "body.extra"},
			{body: `{"extra":"x"}`, at: "body.extra"},
		},
	},
	{
		method: "GET",
		path:   "/api/sessions/extra_info/by_task/{task_id}",
		scope:  "sessions:read",
		url:    "/api/sessions/extra_info/by_task/unknown",
		status: 200,
	},
}

// shownToken is the token of the one link that shown knows.
const shownToken = "0123456789abcdef0123456789abcdef"

// shown is public links, of which one always leads to a session.
type shown struct{}

func (shown) CreateShare(_ context.Context, link domain.ShareLink, _ []byte, life time.Duration) (domain.ShareLink, error) {
	link.CreatedAt = time.Now()
	link.ExpiresAt = link.CreatedAt.Add(life)

	return link, nil
}

func (shown) RevokeShare(_ context.Context, _ domain.SessionID, hash []byte) error {
	if sum := sha256.Sum256([]byte(shownToken)); !bytes.Equal(hash, sum[:]) {
		return domain.Newf(domain.NotFound, "share_not_found", "this link does not exist")
	}

	return nil
}

func (s shown) OpenShare(ctx context.Context, hash []byte, _ bool) (domain.SharedSession, error) {
	return domain.SharedSession{ShareLink: domain.ShareLink{SessionID: none}, OwnerID: none}, s.RevokeShare(ctx, none, hash)
}

// played is replays that obey.
type played struct{}

func (played) Preview(_ context.Context, session domain.Session) (replay.Preview, error) {
	return replay.Preview{SessionID: session.ID, Supported: true}, nil
}

func (played) Start(context.Context, domain.User, domain.Session, int) (domain.SessionID, error) {
	return none, nil
}

func (played) Change(context.Context, domain.User, domain.Session, replay.Change) error {
	return nil
}

// carried is archives of which only the size is kept, and what they
// may hold.
type carried struct{ parts transfer.ExportParts }

func (carried) Export(_ context.Context, _ string, _ domain.Session, parts transfer.ExportParts) (session.Export, error) {
	return carried{parts}, nil
}

func (c carried) Write(_ context.Context, w io.Writer) error {
	_, err := fmt.Fprintf(w, "an archive: %+v", c.parts)
	return err
}

func (carried) Close() error { return nil }

func (carried) Preview(_ context.Context, _ string, _ io.ReaderAt, size int64) (transfer.ImportPreview, error) {
	return transfer.ImportPreview{
		Missing:    []transfer.MissingThing{},
		Warnings:   []string{},
		Errors:     []string{},
		Compatible: true,
		Counts:     transfer.ImportCounts{Bytes: size},
	}, nil
}

func (carried) Upload(_ context.Context, _ string, archive io.Reader) (transfer.ArchiveUpload, error) {
	size, err := io.Copy(io.Discard, archive)
	return transfer.ArchiveUpload{SessionID: none, Size: size}, err
}

func (carried) Discard(context.Context, transfer.ArchiveUpload) (bool, error) { return true, nil }

func (carried) Import(_ context.Context, in transfer.ImportRequest) (domain.SessionID, transfer.ImportedFrom, error) {
	return "", transfer.ImportedFrom{}, domain.Newf(domain.Invalid, "invalid_archive", "%d bytes for %q, solution %v, key %q",
		in.Upload.Size, in.Options.Name, in.Options.SolutionID != nil, in.Key)
}
