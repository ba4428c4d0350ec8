package account

import (
	"context"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"everloop/api/access"
	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/service/accounts"
)

// UsageDays are the days and the page of a report of usage.
type UsageDays struct {
	From   string `query:"from" maxLength:"10" doc:"The first day, in UTC; default: 30 days before to." example:"2026-11-01"`
	To     string `query:"to" maxLength:"10" doc:"The day after the last; default: tomorrow." example:"2026-12-01"`
	Offset int    `query:"offset" default:"0" minimum:"0" maximum:"1000000" doc:"Number of entries to skip." example:"0"`
	Limit  int    `query:"limit" default:"400" minimum:"1" maximum:"1000" doc:"Maximum number of entries." example:"100"`
}

// query checks the days of a report.
func (d UsageDays) query(groups string) (q domain.UsageQuery, err error) {
	q.Offset, q.Limit = d.Offset, d.Limit
	for group := range strings.SplitSeq(groups, "_") {
		q.Groups = append(q.Groups, domain.UsageGroup(group))
	}

	now := time.Now().UTC()
	if q.To, err = usageDay("query.to", d.To, now.Truncate(24*time.Hour).AddDate(0, 0, 1)); err != nil {
		return q, err
	}

	if q.From, err = usageDay("query.from", d.From, q.To.AddDate(0, 0, -30)); err != nil {
		return q, err
	}

	switch {
	case !q.From.Before(q.To):
		return q, domain.Invalidf("query.to", "is not after from")
	case q.To.Sub(q.From) > domain.MaxUsageRange*24*time.Hour:
		return q, domain.Invalidf("query.to", "is more than %d days after from", domain.MaxUsageRange)
	}

	return q, nil
}

func usageDay(location, text string, otherwise time.Time) (time.Time, error) {
	if text == "" {
		return otherwise, nil
	}

	day, err := time.Parse(time.DateOnly, text)
	if err != nil || day.Year() < 1 {
		return day, domain.Invalidf(location, "is not a day, as 2026-11-22")
	}

	return day, nil
}

// UsageAPI reports what model calls have used.
type UsageAPI struct {
	access.Sessions
	Accounts *accounts.Store
}

// Register adds the operations of the area to the interface.
func (a *UsageAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "get-user-usage", Method: fiber.MethodGet, Path: "/api/user/usage", Tag: "User",
		Summary: "Report what the caller's model calls have used",
		Description: "Tokens, cached tokens and cost by day (UTC), model and solution, sub-agents, summaries and other auxiliary calls " +
			"included. Includes from and excludes to, which may be 366 days apart. Tokens of models without a price are shown apart. " +
			"Deleted sessions count.",
		Scope: auth.SessionsRead,
	}, a.ofCaller)
	httpx.Register(r, httpx.Operation{
		ID: "get-usage", Method: fiber.MethodGet, Path: "/api/admin/usage", Tag: "Administration",
		Summary:     "Report what the model calls of all users have used",
		Description: "As the caller's own report, for one user or all of them, and by user too.",
		Scope:       auth.Admin,
	}, a.ofAll)
	httpx.Register(r, httpx.Operation{
		ID: "get-session-usage", Method: fiber.MethodGet, Path: "/api/sessions/{session_id}/usage", Tag: "Sessions",
		Summary: "Report what the model calls of a session have used",
		Description: "All its chats, sub-agents, summaries and other auxiliary calls together. Imported and replayed turns were paid " +
			"elsewhere.",
		Scope: auth.SessionsRead,
	}, a.ofSession)
}

func (a *UsageAPI) ofCaller(ctx context.Context, in *struct {
	UsageDays
	GroupBy string `query:"group_by" default:"day" enum:"day,model,solution,day_model,day_solution,solution_model" doc:"What the entries are grouped by." example:"day_model"`
},
) (*httpx.Body[domain.UsageReport], error) {
	q, err := in.query(in.GroupBy)
	if err != nil {
		return nil, err
	}

	q.UserID = httpx.CallerOf(ctx).User.ID

	return httpx.Answer(a.Accounts.Usage(ctx, q))
}

func (a *UsageAPI) ofAll(ctx context.Context, in *struct {
	UsageDays
	GroupBy string `query:"group_by" default:"day" enum:"day,model,solution,user,day_model,day_solution,day_user,solution_model,solution_user,user_model" doc:"What the entries are grouped by." example:"user_model"`
	UserID  string `query:"user_id" maxLength:"128" doc:"Only this user; left out: all." example:"01a1fd9a-e0d1-7c52-b4f3-7a1d0c9e8b21"`
},
) (*httpx.Body[domain.UsageReport], error) {
	q, err := in.query(in.GroupBy)
	if err != nil {
		return nil, err
	}

	q.UserID = in.UserID

	return httpx.Answer(a.Accounts.Usage(ctx, q))
}

func (a *UsageAPI) ofSession(ctx context.Context, in *access.SessionRef) (*httpx.Body[domain.SessionUsage], error) {
	if _, _, err := a.Readable(ctx, in.SessionID); err != nil {
		return nil, err
	}

	usage, err := a.Accounts.SessionUsage(ctx, in.SessionID)
	usage.ByModel = fields.OrEmpty(usage.ByModel)

	return httpx.Answer(usage, err)
}
