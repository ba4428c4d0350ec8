package api

import (
	"context"

	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
)

// access reads sessions for the caller.
type access struct {
	store   sessionStore
	auditor *auth.Auditor
}

// own reads a session that the caller may change.
func (a *access) own(ctx context.Context, id string) (domain.Session, error) {
	return a.store.OwnSession(ctx, httpx.CallerOf(ctx).User, id)
}

// readable reads a session that the caller may see. A read by an administrator's
// privilege is audited before the answer.
func (a *access) readable(ctx context.Context, id string) (domain.Session, domain.ViewerRole, error) {
	user := httpx.CallerOf(ctx).User

	session, role, err := a.store.ReadSession(ctx, user, id)
	if err == nil && role == domain.ViewerAdmin {
		details := map[string]string{
			"edge":       string(auth.EdgeREST),
			"route":      httpx.RequestOf(ctx).Route,
			"request_id": httpx.RequestOf(ctx).ID,
		}
		err = a.auditor.Write(ctx, user.ID, auth.ActionSessionRead, id, details)
	}

	return session, role, err
}
