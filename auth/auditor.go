package auth

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"everloop/domain"
)

// AuditLog stores audit records.
type AuditLog interface {
	Audit(ctx context.Context, actorID, action, target string, details map[string]string) error
}

// Edge is the interface that a client used, for the audit trail.
type Edge string

// The two edges of the agent.
const (
	EdgeREST     Edge = "rest"
	EdgeSocketIO Edge = "socket.io"
)

// Actions of the audit trail that both edges record.
const (
	ActionSignIn      = "auth.sign_in"
	ActionRefused     = "auth.refused"
	ActionSessionRead = "session.read"
	ActionAdminRead   = "admin.read"
)

// Minimum intervals between equal records. API keys are sent with each request: the first use
// after an hour counts as a sign-in.
const (
	signInEvery  = time.Hour
	refusedEvery = time.Minute
	readEvery    = time.Minute
)

// Auditor writes the audit log, from either edge. Frequent actions are recorded once per
// interval, so that neither a busy client nor a guessing one fills the table. A nil Auditor
// records nothing. It is safe for concurrent use.
type Auditor struct {
	log    AuditLog
	logger *slog.Logger
	now    func() time.Time

	signIns, refusals, reads recent
}

// NewAuditor returns a new Auditor; now is its clock, nil: time.Now.
func NewAuditor(log AuditLog, logger *slog.Logger, now func() time.Time) *Auditor {
	if now == nil {
		now = time.Now
	}

	return &Auditor{log: log, logger: logger, now: now}
}

// Write records one action; the caller handles the error.
func (a *Auditor) Write(ctx context.Context, actorID, action, target string, details map[string]string) error {
	if a == nil {
		return nil
	}

	return a.log.Audit(ctx, actorID, action, target, details)
}

// Record is Write for actions that have already happened: a failure to record them is only
// logged.
func (a *Auditor) Record(ctx context.Context, actorID, action, target string, details map[string]string) {
	if err := a.Write(ctx, actorID, action, target, details); err != nil {
		a.logger.Warn("failed to write an audit record", "action", action, "target", target, "error", err)
	}
}

// SignedIn records the use of a credential, at most once an hour for each address.
func (a *Auditor) SignedIn(ctx context.Context, caller domain.Caller, edge Edge, address string) {
	if a == nil || !a.signIns.first(caller.User.ID+"\n"+caller.KeyID+"\n"+string(edge)+"\n"+address, a.now(), signInEvery) {
		return
	}

	details := map[string]string{"edge": string(edge), "address": address}
	if caller.KeyID != "" {
		details["api_key_id"] = caller.KeyID
	}

	a.Record(ctx, caller.User.ID, ActionSignIn, caller.User.ID, details)
}

// Refused records that a request was rejected for its credentials, scopes or role, at most once
// a minute for each caller or address, code and operation. The caller is the zero value if the
// credentials were wrong.
func (a *Auditor) Refused(ctx context.Context, caller domain.Caller, edge Edge, address, operation string, err error) {
	if a == nil {
		return
	}

	e := domain.AsError(err)
	if e.Kind != domain.Unauthenticated && e.Kind != domain.Forbidden {
		return
	}

	who := caller.User.ID + "\n" + caller.KeyID
	if caller.User.ID == "" {
		who, operation = address, "" // a scan of paths with a wrong key is recorded once
	}

	if !a.refusals.first(who+"\n"+e.Code+"\n"+string(edge)+"\n"+operation, a.now(), refusedEvery) {
		return
	}

	details := map[string]string{"edge": string(edge), "address": address, "code": e.Code}
	if operation != "" {
		details["operation"] = operation
	}

	if caller.KeyID != "" {
		details["api_key_id"] = caller.KeyID
	}

	a.Record(ctx, caller.User.ID, ActionRefused, caller.User.ID, details)
}

// AdministratorRead records that an administrator read data that only administrators see, at
// most once a minute for each operation and target.
func (a *Auditor) AdministratorRead(ctx context.Context, caller domain.Caller, operation, target string) {
	if a == nil || !a.reads.first(caller.User.ID+"\n"+operation+"\n"+target, a.now(), readEvery) {
		return
	}

	a.Record(ctx, caller.User.ID, ActionAdminRead, target, map[string]string{"operation": operation})
}

// recentLimit bounds a process's memory of each kind of record. Above it nothing more is
// recorded until entries expire, so that a flood is bounded.
const recentLimit = 10_000

// recent contains the recently recorded keys.
type recent struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// first reports whether the key is new within the period.
func (r *recent) first(key string, now time.Time, period time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	if now.Before(r.until[key]) {
		return false
	}

	if len(r.until) >= recentLimit {
		for k, until := range r.until {
			if !now.Before(until) {
				delete(r.until, k)
			}
		}
	}

	if len(r.until) >= recentLimit {
		return false
	}

	if r.until == nil {
		r.until = map[string]time.Time{}
	}

	r.until[key] = now.Add(period)

	return true
}
