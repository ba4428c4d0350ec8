package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

var usageWalk = []call{
	{method: "GET", path: "/api/user/usage", scope: "sessions:read", url: "/api/user/usage?group_by=day_model", status: 200, bad: []bad{
		{path: "/api/user/usage?from=yesterday", at: "query.from"},
		{path: "/api/user/usage?to=2026-02-30", at: "query.to"},
		{path: "/api/user/usage?from=2026-02-02&to=2026-02-02", at: "query.to"},
		{path: "/api/user/usage?from=2024-01-01&to=2026-01-01", at: "query.to"},
		{path: "/api/user/usage?group_by=user", at: "query.group_by"},
		{path: "/api/user/usage?limit=0", at: "query.limit"},
		{path: "/api/user/usage?limit=1001", at: "query.limit"},
	}},
	{method: "GET", path: "/api/admin/usage", scope: "admin", url: "/api/admin/usage?group_by=user", status: 200, admin: true, bad: []bad{
		{path: "/api/admin/usage?from=yesterday", at: "query.from"}, {path: "/api/admin/usage?limit=0", at: "query.limit"},
	}},
	{
		method: "GET", path: "/api/sessions/{session_id}/usage", scope: "sessions:read", url: "/api/sessions/{s}/usage", status: 200,
		missing: "/api/sessions/" + none + "/usage",
	},
}

func TestUsage_ofUsersAndSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := w.session("{}")
	_, err := w.db.Pool.Exec(t.Context(), `
		INSERT INTO session_usage (session_id, owner_id, day, model, priced, calls, input_tokens, output_tokens, cache_read_tokens,
		    cache_write_tokens, cost_nano)
		VALUES ($1, $2, '2026-03-01', 'a', true, 2, 100, 10, 40, 5, 1500), ($1, $2, '2026-03-01', 'b', false, 1, 7, 3, 0, 0, 0),
		       ($1, $2, '2026-03-02', 'a', true, 1, 50, 5, 0, 0, 1000000000)`, session, w.annID)
	require.NoError(t, err)
	_, err = w.db.Pool.Exec(t.Context(), `
		INSERT INTO deleted_usage VALUES ($1, '2026-03-02', 'a', true, 1, 1, 1, 0, 0, 1, 'web-shop')`, w.annID)
	require.NoError(t, err)

	const days = "?from=2026-03-01&to=2026-03-03"

	report := w.do("GET", "/api/user/usage"+days, w.ann, "").json()
	require.Equal(t, []any{"2026-03-01", "2026-03-03", false}, []any{report["from"], report["to"], report["more"]})
	total := report["total"].(map[string]any)
	require.Equal(
		t,
		[]any{5.0, 158.0, 19.0, 40.0, 5.0, 1.000001501},
		[]any{
			total["calls"],
			total["input_tokens"],
			total["output_tokens"],
			total["cache_read_tokens"],
			total["cache_write_tokens"],
			total["cost_usd"],
		},
	)
	require.Equal(
		t,
		map[string]any{"input_tokens": 7.0, "output_tokens": 3.0, "cache_read_tokens": 0.0, "cache_write_tokens": 0.0},
		total["uncosted"],
	)

	items := report["items"].([]any)
	require.Len(t, items, 2)
	require.Equal(t, "2026-03-01", items[0].(map[string]any)["day"])
	require.NotContains(t, items[0], "model")

	both := w.do("GET", "/api/user/usage"+days+"&group_by=day_model&limit=2", w.ann, "").json()
	require.Len(t, both["items"], 2)
	require.Equal(t, true, both["more"])
	require.Empty(t, w.do("GET", "/api/user/usage"+days, w.bob, "").json()["items"])
	w.do("GET", "/api/user/usage"+days+"&group_by=user", w.ann, "").code(422, domain.CodeInvalidRequest)

	one := w.do("GET", "/api/sessions/"+session+"/usage", w.ann, "").json()
	require.Equal(t, []any{4.0, 1.0000015}, []any{one["calls"], one["cost_usd"]})
	require.Len(t, one["by_model"], 2)
	w.do("GET", "/api/sessions/"+session+"/usage", w.bob, "").code(404, domain.CodeSessionNotFound)

	w.do("GET", "/api/admin/usage", w.ann, "").code(403, "administrator_required")
	all := w.do("GET", "/api/admin/usage"+days+"&group_by=user", w.root, "").json()["items"].([]any)
	require.Len(t, all, 1)
	require.Equal(t, []any{w.annID, "ann"}, []any{all[0].(map[string]any)["user_id"], all[0].(map[string]any)["username"]})
	require.Empty(t, w.do("GET", "/api/admin/usage"+days+"&user_id="+none, w.root, "").json()["items"])
}

func TestUsage_bySolution(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	shop, plain := w.session("{}"), w.session("{}")
	_, err := w.db.Pool.Exec(t.Context(), `UPDATE sessions SET solution_id = 'web-shop' WHERE id = $1`, shop)
	require.NoError(t, err)
	_, err = w.db.Pool.Exec(t.Context(), `
		INSERT INTO session_usage (session_id, owner_id, day, model, priced, calls, input_tokens, output_tokens, cache_read_tokens,
		    cache_write_tokens, cost_nano)
		VALUES ($1, $3, '2026-03-01', 'a', true, 2, 100, 10, 0, 0, 3000000000), ($1, $3, '2026-03-02', 'b', true, 1, 7, 3, 0, 0, 0),
		       ($2, $3, '2026-03-01', 'a', true, 4, 50, 5, 0, 0, 1000000000)`, shop, plain, w.annID)
	require.NoError(t, err)
	_, err = w.db.Pool.Exec(t.Context(), `
		INSERT INTO deleted_usage (owner_id, day, model, priced, solution_id, calls, input_tokens, output_tokens, cache_read_tokens,
		    cache_write_tokens, cost_nano)
		VALUES ($1, '2026-03-01', 'a', true, 'web-shop', 8, 1, 1, 0, 0, 0), ($1, '2026-03-01', 'a', true, '', 16, 1, 1, 0, 0, 0)`, w.annID)
	require.NoError(t, err)

	const days = "?from=2026-03-01&to=2026-03-03"

	calls := func(path, key string, fields ...string) (lines [][]any) {
		for _, item := range w.do("GET", path, key, "").json()["items"].([]any) {
			line := []any{}
			for _, field := range append(fields, "calls") {
				line = append(line, item.(map[string]any)[field])
			}

			lines = append(lines, line)
		}

		return lines
	}
	require.Equal(t, [][]any{{"web-shop", 11.0}, {"", 20.0}},
		calls("/api/user/usage"+days+"&group_by=solution", w.ann, "solution_id"))
	require.Equal(t, [][]any{{"2026-03-01", "web-shop", 10.0}, {"2026-03-01", "", 20.0}, {"2026-03-02", "web-shop", 1.0}},
		calls("/api/user/usage"+days+"&group_by=day_solution", w.ann, "day", "solution_id"))
	require.Equal(t, [][]any{{"web-shop", "a", 10.0}, {"", "a", 20.0}, {"web-shop", "b", 1.0}},
		calls("/api/user/usage"+days+"&group_by=solution_model", w.ann, "solution_id", "model"))
	require.Empty(t, calls("/api/user/usage"+days+"&group_by=solution", w.bob))
	require.Equal(t, [][]any{{"web-shop", "ann", 11.0}, {"", "ann", 20.0}},
		calls("/api/admin/usage"+days+"&group_by=solution_user", w.root, "solution_id", "username"))
	require.Equal(t, [][]any{{nil, 30.0}, {nil, 1.0}}, calls("/api/user/usage"+days, w.ann, "solution_id"), "only where it is asked for")
}
