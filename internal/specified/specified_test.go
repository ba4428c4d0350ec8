package specified_test

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"everloop/internal/specified"
)

const root = "../.."

// TestOperations_ofTheSpecification compares the list that the repository keeps
// with the specification, wherever that is at hand.
func TestOperations_ofTheSpecification(t *testing.T) {
	t.Parallel()

	folder := cmp.Or(os.Getenv("EVERLOOP_SPEC"), filepath.Join(root, "../shared/spec"))
	if _, err := os.Stat(folder); err != nil {
		if os.Getenv("EVERLOOP_SPEC") != "" {
			t.Fatal(err)
		}

		t.Skipf("the specification is not at %s: set EVERLOOP_SPEC to its folder to compare the list with it", folder)
	}

	read, err := specified.Operations(os.DirFS(folder))
	require.NoError(t, err)
	kept, err := os.ReadFile(filepath.Join(root, "api/testdata/specified.txt"))
	require.NoError(t, err)
	require.Equal(t, read, strings.Split(strings.TrimSpace(string(kept)), "\n"), "update the list with make specified")
}

func TestOperations(t *testing.T) {
	t.Parallel()

	spec := fstest.MapFS{
		"agent-service.md": {Data: []byte("First `POST /api/things` and then `GET {other}/api/v1` or `GET /elsewhere`.\n" +
			"| Method | Path | Request |\n|---|---|---|\n" +
			"| GET | /api/things | none |\n| GET, POST | /api/things/{thing_id}/parts | `GET /api/ghost?x=1` |\n" +
			"| GET | /api/all/first/{id} | a |\n| PUT | /api/all/first/{id} | a |\n| DELETE | /api/all/first/{id}/versions/{version} | " +
			"a |\n" +
			"| GET | /api/all/{id} | a |\n" +
			"The second has the same three operations (a, b) under the prefix `/api/all/second/{id}`, with the same sub-paths.\n")},
		"decisions.md": {Data: []byte("## 1. Running\n`GET /api/not-this`\n## 2. REST\n`GET /api/openapi.json`\n## 7. Paths\n" +
			"| Operation | Method and path |\n|---|---|\n" +
			"| Tasks | POST, GET /api/tasks; GET, PATCH /api/tasks/{id}; POST …/{id}/start, …/{id}/stop, …/{id}/run (now); GET " +
			"…/calendar?from&to |\n" +
			"| Runs | POST /api/d/{d_id}/runs; GET …/runs/{run_id}; POST …/runs/{run_id}/cancel, …/retry |\n" +
			"| Chat | POST /api/s/{s_id}/chat (body as x) → 202 {chat_id}, or with `Accept: x` 200; POST …/stop; GET " +
			"…/events?after_seq= (SSE) |\n" +
			"| Registry | GET /api/r/resources, /resources/{id}, /organizations, /store/stats |\n" +
			"| Metrics | GET /metrics (Prometheus), GET /readyz |\n" +
			"| Users | POST /api/users {name, email?} → 201 {user}; DELETE /api/users/{user_id} (both) |\n" +
			"## 8. Details\n`GET /api/nor-this`\n")},
		"shapes.md": {Data: []byte("readable at `GET /api/s/{id}/compare?base=&other=`, and `GET /api/things/{id}/parts` again\n")},
	}
	operations, err := specified.Operations(spec)
	require.NoError(t, err)
	require.Equal(t, []string{
		"GET /api/all/first/{id}", "PUT /api/all/first/{id}", "DELETE /api/all/first/{id}/versions/{version}",
		"GET /api/all/second/{id}", "PUT /api/all/second/{id}", "DELETE /api/all/second/{id}/versions/{version}",
		"GET /api/all/{id}",
		"POST /api/d/{d_id}/runs", "GET /api/d/{d_id}/runs/{run_id}", "POST /api/d/{d_id}/runs/{run_id}/cancel",
		"POST /api/d/{d_id}/runs/{run_id}/retry",
		"GET /api/openapi.json",
		"GET /api/r/organizations", "GET /api/r/resources", "GET /api/r/resources/{id}", "GET /api/r/store/stats",
		"GET /api/s/{id}/compare", "POST /api/s/{s_id}/chat", "GET /api/s/{s_id}/events", "POST /api/s/{s_id}/stop",
		"GET /api/tasks", "POST /api/tasks", "GET /api/tasks/calendar", "GET /api/tasks/{id}", "PATCH /api/tasks/{id}",
		"POST /api/tasks/{id}/run", "POST /api/tasks/{id}/start", "POST /api/tasks/{id}/stop",
		"GET /api/things", "POST /api/things", "GET /api/things/{thing_id}/parts", "POST /api/things/{thing_id}/parts",
		"POST /api/users", "DELETE /api/users/{user_id}",
		"GET /metrics", "GET /readyz",
	}, operations)

	spec["agent-service.md"].Data = []byte("The same four operations (a) under the prefix `/api/x/second/{id}`.\n")
	_, err = specified.Operations(spec)
	require.ErrorContains(t, err, "0 were found")
	delete(spec, "shapes.md")
	_, err = specified.Operations(spec)
	require.Error(t, err)
}
