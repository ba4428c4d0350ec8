package httpx

import (
	"context"
	"strings"

	"everloop/auth"
)

// audited records the success of an operation: its own action where it names one,
// and each look at what only administrators see.
func audited(ctx context.Context, auditor *auth.Auditor, op Operation) {
	r := RequestOf(ctx)

	switch {
	case op.Audit != "":
		auditor.Record(ctx, r.Caller.User.ID, op.Audit, r.target, r.detail)
	case op.Scope == auth.Admin:
		auditor.AdministratorRead(ctx, r.Caller, op.ID, r.target)
	}
}

// Concerns names what a request was about, for the audit trail. Without it the
// target is the first parameter of the path.
func Concerns(ctx context.Context, target string, details map[string]string) {
	r := RequestOf(ctx)
	r.target, r.detail = target, details
}

// firstParameter is the name of the first parameter of a path; "" without one.
func firstParameter(path string) string {
	_, rest, _ := strings.Cut(path, "{")
	name, _, _ := strings.Cut(rest, "}")

	return name
}
