package api_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

var diagnosticsWalk = []call{
	{method: "GET", path: "/api/env/config", scope: "admin", url: "/api/env/config", status: 200, admin: true},
	{method: "GET", path: "/api/env/diagnostics", scope: "admin", url: "/api/env/diagnostics", status: 200, admin: true, stream: true},
	{
		method:  "GET",
		path:    "/api/env/diagnostics/{check}",
		scope:   "admin",
		url:     "/api/env/diagnostics/objects",
		status:  200,
		admin:   true,
		stream:  true,
		missing: "/api/env/diagnostics/none",
	},
}

// diagnostics are two checks, of which one fails.
type diagnostics struct{}

func (diagnostics) Configuration() []domain.ConfigGroup {
	return []domain.ConfigGroup{{Group: "Service", Items: []domain.ConfigItem{{EnvVar: "A"}}}}
}

func (diagnostics) Checks() []domain.Check {
	fixed := func(r domain.CheckResult) func(context.Context) domain.CheckResult {
		return func(context.Context) domain.CheckResult { return r }
	}

	return []domain.Check{
		{ID: "records", Title: "Records", Run: fixed(domain.CheckResult{Status: domain.CheckOK, Message: "fine"})},
		{ID: "objects", Title: "Objects", Run: fixed(domain.CheckResult{Status: domain.CheckFail, Message: "away", Hint: "start it"})},
	}
}

func TestDiagnostics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := w.do("GET", "/api/env/diagnostics", w.root, "")
	require.Equal(t, "text/event-stream", all.header.Get("Content-Type"))
	require.Equal(t, ": open\n\n"+
		"event: check_started\ndata: {\"id\":\"records\",\"title\":\"Records\"}\n\n"+
		"event: check_result\ndata: {\"id\":\"records\",\"status\":\"ok\",\"message\":\"fine\",\"hint\":\"\",\"duration_ms\":0}\n\n"+
		"event: check_started\ndata: {\"id\":\"objects\",\"title\":\"Objects\"}\n\n"+
		"event: check_result\ndata: {\"id\":\"objects\",\"status\":\"fail\",\"message\":\"away\",\"hint\":\"start "+
		"it\",\"duration_ms\":0}\n\n"+
		"event: done\ndata: {\"ok\":1,\"warn\":0,\"fail\":1}\n\n", all.text)

	one := w.do("GET", "/api/env/diagnostics/objects", w.root, "")
	require.JSONEq(t, `{"id":"objects","status":"fail","message":"away","hint":"start it","duration_ms":0}`, one.text)

	events := w.do("GET", "/api/env/diagnostics/records", w.root, "", header("Accept", "text/event-stream"))
	require.Contains(t, events.text, "event: done\ndata: {\"ok\":1,\"warn\":0,\"fail\":0}")
	w.do("GET", "/api/env/diagnostics/none", w.root, "").code(404, "check_not_found")
	w.do("GET", "/api/env/config", w.ann, "").code(403, "administrator_required")
}
