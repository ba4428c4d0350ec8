package access

import (
	"context"

	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/infra/postgres/sessions"
)

// Sessions reads sessions for the caller.
type Sessions struct {
	Store   *sessions.Store
	Auditor *auth.Auditor
}

// Own reads a session that the caller may change.
func (a *Sessions) Own(ctx context.Context, id domain.SessionID) (domain.Session, error) {
	return a.Store.OwnSession(ctx, httpx.CallerOf(ctx).User, id)
}

// OwnRun reads of a session that the caller may change what its run is started with. Chats
// take it as the proof that the owner was checked.
func (a *Sessions) OwnRun(ctx context.Context, id domain.SessionID) (domain.SessionRun, error) {
	return a.Store.OwnSessionRun(ctx, httpx.CallerOf(ctx).User, id)
}

// Readable reads a session that the caller may see. A read by an administrator's
// privilege is audited before the answer.
func (a *Sessions) Readable(ctx context.Context, id domain.SessionID) (domain.Session, domain.ViewerRole, error) {
	user := httpx.CallerOf(ctx).User

	session, role, err := a.Store.ReadSession(ctx, user, id)
	if err == nil && role == domain.ViewerAdmin {
		details := map[string]string{
			"edge":       string(auth.EdgeREST),
			"route":      httpx.RequestOf(ctx).Route,
			"request_id": httpx.RequestOf(ctx).ID,
		}
		err = a.Auditor.Write(ctx, user.ID, auth.ActionSessionRead, string(id), details)
	}

	return session, role, err
}

// ReadableFiles reads a session whose files the caller may see. The files of a session that got
// secrets of its owner, although other members of a workspace steer it, are for its owner only.
func (a *Sessions) ReadableFiles(ctx context.Context, id domain.SessionID) (domain.Session, error) {
	session, role, err := a.Readable(ctx, id)
	if err != nil || role == domain.ViewerOwner {
		return session, err
	}

	withheld, err := a.Store.HoldsSecrets(ctx, id)
	if err == nil && withheld {
		err = domain.Newf(domain.Forbidden, CodeFilesWithheld, "the session holds secrets of its owner: only they read its files")
	}

	return session, err
}

// CodeFilesWithheld is the code of a read that ReadableFiles refuses.
const CodeFilesWithheld = "files_withheld"

// SessionRef is the path of an operation on one session.
type SessionRef struct {
	SessionID domain.SessionID `path:"session_id" doc:"The session." example:"01a1fd9b-4f0b-74a3-bdbc-594f816ae116"`
}

// CheckpointRef is the path of an operation on one checkpoint.
type CheckpointRef struct {
	SessionRef
	CheckpointID domain.CheckpointID `path:"checkpoint_id" maxLength:"128" doc:"The checkpoint." example:"01a1ff63-2f62-7310-b604-777ea9c14e81"`
}
