package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/skill"
	"everloop/infra/skillregistry"
)

// registryOf answers as the skill registry does.
func registryOf(t *testing.T) string {
	t.Helper()

	const day = "2026-11-20T08:00:00Z"

	resource := map[string]any{
		"id":         "r-1",
		"type":       "skill",
		"subtype":    "tables",
		"name":       "tables",
		"version":    "1.2.0",
		"size":       4096,
		"created_at": day,
		"updated_at": day,
	}
	template := map[string]any{
		"type_key": "report",
		"subtype":  "weekly",
		"title":    "Weekly report",
		"version":  "1.0.0",
		"schema":   map[string]any{"type": "object"},
	}
	mux := http.NewServeMux()
	give := func(path string, v any) {
		mux.HandleFunc("GET /registry"+path, func(w http.ResponseWriter, r *http.Request) {
			if r.PathValue("id") == "none" || r.PathValue("subtype") == "none" {
				w.WriteHeader(http.StatusNotFound)
				return
			}

			// Its bounds are narrower than those of the agent.
			if r.PathValue("subtype") == "Basic" || r.URL.Query().Get("driver") == "HTTP" || r.PathValue("id") == "an id" {
				w.WriteHeader(http.StatusUnprocessableEntity)
				return
			}

			if len(r.URL.Query().Get("type")) > 200 {
				w.WriteHeader(http.StatusUnprocessableEntity)
				_, _ = w.Write([]byte(`{"code":"invalid_request","errors":[{"location":"query.type","message":"is too long"}]}`))

				return
			}

			switch r.URL.Query().Get("type") {
			case "broken":
				_, _ = w.Write([]byte(`{"items":5`))
				return
			case "gives-null":
				_, _ = w.Write([]byte("null\n"))
				return
			case "large":
				_, _ = fmt.Fprintf(w, `{"items":[{"id":%q}]}`, strings.Repeat("x", 9<<20))
				return
			}

			_ = json.NewEncoder(w).Encode(v)
		})
	}
	list := func(items ...any) any { return map[string]any{"items": items, "total": 7} }
	give("/resources", list(resource))
	give("/resources/{id}", resource)
	give("/organizations", list(map[string]any{"name": "acme", "display_name": "Acme", "skill_count": 3}))
	give("/templates", list(template))
	give("/templates/{type}/{subtype}", template)
	give(
		"/scenarios",
		list(map[string]any{"id": "s-1", "title": "Start", "type": "demo"}, map[string]any{"id": "s-2", "title": "Go on", "type": "demo"}),
	)
	give("/skill-store/stats", map[string]any{"skills": 3, "versions": 9, "organizations": 1, "downloads": 40, "updated_at": day})

	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)

	return server.URL
}

var registryWalk = []call{
	{method: "GET", path: "/api/registry/resources", scope: "skills", url: "/api/registry/resources?type=skill", status: 200, bad: []bad{
		{path: "/api/registry/resources?limit=0", at: "query.limit"},
		{path: "/api/registry/resources?offset=-1", at: "query.offset"},
		{path: "/api/registry/resources?limit=x", at: "query.limit"},
	}},
	{
		method:  "GET",
		path:    "/api/registry/resources/{id}",
		scope:   "skills",
		url:     "/api/registry/resources/r-1",
		status:  200,
		missing: "/api/registry/resources/none",
	},
	{method: "GET", path: "/api/registry/organizations", scope: "skills", url: "/api/registry/organizations", status: 200},
	{method: "GET", path: "/api/registry/templates", scope: "skills", url: "/api/registry/templates", status: 200},
	{
		method:  "GET",
		path:    "/api/registry/templates/{type_key}/{subtype}",
		scope:   "skills",
		url:     "/api/registry/templates/report/weekly?driver=pdf",
		status:  200,
		missing: "/api/registry/templates/report/none",
	},
	{method: "GET", path: "/api/registry/scenarios", scope: "skills", url: "/api/registry/scenarios", status: 200, bad: []bad{
		{path: "/api/registry/scenarios?limit=0", at: "query.limit"}, {path: "/api/registry/scenarios?limit=2001", at: "query.limit"},
	}},
	{method: "GET", path: "/api/registry/skill-store/stats", scope: "skills", url: "/api/registry/skill-store/stats", status: 200},
	{method: "GET", path: "/api/gis/status", scope: "sessions:read", url: "/api/gis/status", status: 200},
}

func TestRegistryViews(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	page := w.do("GET", "/api/registry/resources?limit=1", w.ann, "").json()
	require.EqualValues(t, 7, page["total"])
	first := page["items"].([]any)[0].(map[string]any)
	require.Equal(t, []any{}, first["tags"])
	require.Equal(t, "1.2.0", first["version"])

	template := w.do("GET", "/api/registry/templates/report/weekly", w.ann, "").json()
	require.Equal(t, map[string]any{}, template["defaults"], "what is left out is empty, not null")

	scenario := w.do("GET", "/api/registry/scenarios", w.ann, "").json()["items"].([]any)[0].(map[string]any)
	require.Equal(t, []any{}, scenario["resource_ids"])
	w.do("GET", "/api/registry/templates/report/none", w.ann, "").code(404, "template_not_found")

	w.do("GET", "/api/registry/templates/report/Basic", w.ann, "").code(404, "template_not_found")
	w.do("GET", "/api/registry/templates/report/weekly?driver=HTTP", w.ann, "").code(404, "template_not_found")
	w.do("GET", "/api/registry/resources/an%20id", w.ann, "").code(404, "resource_not_found")

	long := w.do("GET", "/api/registry/resources?type="+strings.Repeat("t", 201), w.ann, "")
	require.Equal(t, []string{"query.type"}, long.fields())

	for _, lie := range []string{"broken", "gives-null", "large"} {
		w.do("GET", "/api/registry/resources?type="+lie, w.ann, "").code(503, domain.CodeServiceDown)
	}

	require.Len(t, w.do("GET", "/api/registry/scenarios?limit=1", w.ann, "").json()["items"], 1, "also when the registry gives more "+
		"than it was asked for")
}

// The registry of the specification keeps packages; that it does not offer a view
// does not mean that a skill is missing.
func TestViewsThatTheRegistryDoesNotOffer(t *testing.T) {
	t.Parallel()

	bare := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(bare.Close)

	w := newWorld(t, func(c *parts) { c.Library.Registry = skillregistry.New(bare.URL) })
	for _, path := range []string{"/resources", "/organizations", "/templates", "/scenarios", "/skill-store/stats"} {
		w.do("GET", "/api/registry"+path, w.ann, "").code(503, domain.CodeServiceDown)
	}

	w.do("GET", "/api/registry/resources/x", w.ann, "").code(404, "resource_not_found")
	w.do("GET", "/api/registry/templates/a/b", w.ann, "").code(404, "template_not_found")
}

func TestWithoutARegistryItsViewsSaySo(t *testing.T) {
	t.Parallel()

	w := newWorld(t, func(c *parts) { c.Library.Registry = skillregistry.New("") })
	for _, path := range []string{
		"/resources", "/resources/x", "/organizations", "/templates", "/templates/a/b", "/scenarios", "/skill-store/stats",
	} {
		w.do("GET", "/api/registry"+path, w.ann, "").code(503, skill.CodeNoRegistry)
	}
}
