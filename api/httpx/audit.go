package httpx

import (
	"context"
	"strings"

	"everloop/auth"
	"everloop/domain"
)

// audited records the success of an operation: its own action where it names one,
// and each look at what only administrators see.
func audited(ctx context.Context, auditor *auth.Auditor, op Operation) {
	r := RequestOf(ctx)

	action := op.Audit
	if r.action != "" {
		action = r.action
	}

	switch {
	case action != "":
		auditor.Record(ctx, r.Caller.User.ID, action, r.target, r.detail)
	case op.Scope == auth.Admin || r.asAdministrator:
		auditor.AdministratorRead(ctx, r.Caller, op.ID, r.target)
	}
}

// Concerns names what a request was about, for the audit trail. Without it the
// target is the first parameter of the path.
func Concerns(ctx context.Context, target string, details map[string]string) {
	r := RequestOf(ctx)
	r.target, r.detail = target, details
}

// Acted is Concerns for an operation whose body says what it does: action is what the
// trail calls it.
func Acted(ctx context.Context, action, target string, details map[string]string) {
	RequestOf(ctx).action = action
	Concerns(ctx, target, details)
}

// AsAdministrator checks that the caller may see what only administrators see, in an
// operation that is not theirs alone, and names what it looks at for the audit trail.
func AsAdministrator(ctx context.Context, target string) error {
	r := RequestOf(ctx)
	if err := auth.Check(r.Caller, auth.Admin); err != nil {
		return err
	}

	if !r.Caller.User.Administrator {
		return domain.Newf(domain.Forbidden, "administrator_required", "only administrators ask about other users")
	}

	r.target, r.asAdministrator = target, true

	return nil
}

// firstParameter returns the name of the first parameter of a path; "" without one.
func firstParameter(path string) string {
	_, rest, _ := strings.Cut(path, "{")
	name, _, _ := strings.Cut(rest, "}")

	return name
}
