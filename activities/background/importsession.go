package background

import (
	"context"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
)

// Imports carry out imports of sessions.
type Imports struct {
	Sessions SessionImports
}

// SessionImports make sessions of archives that were stored. Each call is one
// attempt; an error is retried.
type SessionImports interface {
	Load(ctx context.Context, sessionID domain.SessionID) error
	Abort(ctx context.Context, sessionID domain.SessionID, reason string) error
}

// LoadImport makes the session, or leaves nothing behind.
func (i *Imports) LoadImport(ctx context.Context, in contract.ImportInput) (struct{}, error) {
	ctx, stop := durable.Heartbeat(ctx)
	defer stop()

	return struct{}{}, importFault(i.Sessions.Load(ctx, in.SessionID))
}

// AbortImport ends an import that is not to be carried out.
func (i *Imports) AbortImport(ctx context.Context, in contract.AbortImportIn) (struct{}, error) {
	ctx, stop := durable.Heartbeat(ctx)
	defer stop()

	return struct{}{}, importFault(i.Sessions.Abort(ctx, in.SessionID, in.Reason))
}

// importFault ends the run of an import that is gone. Every other error is retried.
func importFault(err error) error {
	if domain.HasCode(err, contract.CodeImportGone) {
		return durable.Final(contract.CodeImportGone, err.Error())
	}

	return err
}
