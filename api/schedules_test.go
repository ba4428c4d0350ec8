package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/cron"
	"everloop/domain/schedule"
	"everloop/service/schedules"
)

const (
	calendarOf = "/api/scheduled-tasks/calendar?from=2030-01-01T00:00:00Z&to="
	previewOf  = "/api/scheduled-tasks/preview?cron="
)

var schedulesWalk = []call{
	{
		method: "POST", path: "/api/scheduled-tasks", scope: "schedules", url: "/api/scheduled-tasks", status: 201, hasBody: true,
		body: `{"title":"t","prompt":"p","cron":"@daily","timezone":"UTC"}`, bad: []bad{
			{body: `{"title":"t","prompt":"p"}`, at: "body.cron"},
			{body: `{"title":"t","prompt":"p","cron":"* * * *"}`, at: "body.cron"},
			{body: `{"title":"","prompt":"p","cron":"@daily"}`, at: "body.title"},
			{body: `{"title":"t","prompt":"","cron":"@daily"}`, at: "body.prompt"},
			{body: `{"title":"t","prompt":"p","cron":"@daily","timezone":"Nowhere"}`, at: "body.timezone"},
			{body: `{"title":"t","prompt":"p","cron":"@daily","expires_at":"2020-01-01T00:00:00Z"}`, at: "body.expires_at"},
			{body: `{"title":"t","prompt":"p","cron":"@daily","overlap":"x"}`, at: "body.overlap"},
			{body: `{"title":"t","prompt":"p","cron":"@daily","jitter_s":-1}`, at: "body.jitter_s"},
			{body: `{"title":"t","prompt":"p","cron":"@daily","files":["../x"]}`, at: "body.files[0]"},
			{body: `{"title":"t","prompt":"p","cron":"@daily","files":["a","[x"]}`, at: "body.files[1]"},
			{body: `{"title":"t","prompt":"p","cron":"@daily","commands":[" "]}`, at: "body.commands[0]"},
			{body: `{"title":"t","prompt":"p","cron":"@daily","workspace_id":5}`, at: "body.workspace_id"},
			{body: `{"title":"t","cron":"@daily"}`, at: "body.prompt"},
			{body: `{"title":"t","cron":"@daily","target":{"kind":"x"}}`, at: "body.target.kind"},
			{body: `{"title":"t","cron":"@daily","target":{"kind":"dag"}}`, at: "body.target.solution_id"},
			{body: `{"title":"t","cron":"@daily","target":{"kind":"issue"}}`, at: "body.target.workspace_id"},
			{
				body: `{"title":"t","cron":"@daily","target":{"kind":"issue","workspace_id":"w","title":"{{input.x}}"}}`,
				at:   "body.target.title",
			},
			{body: `{"title":"t","cron":"@daily","target":{"kind":"issue","workspace_id":"w"},"model":"m"}`, at: "body.model"},
			{body: `{"title":"t","prompt":"p","cron":"@daily","target":{"kind":"prompt","version":1}}`, at: "body.target.version"},
		},
	},
	{
		method: "GET", path: "/api/scheduled-tasks", scope: "schedules", url: "/api/scheduled-tasks?workspace_id=" + none, status: 200,
		bad: []bad{{path: "/api/scheduled-tasks?workspace_id=" + strings.Repeat("x", 129), at: "query.workspace_id"}},
	},
	{
		method: "GET",
		path:   "/api/scheduled-tasks/calendar",
		scope:  "schedules",
		url:    calendarOf + "2030-02-01T00:00:00Z",
		status: 200,
		bad: []bad{
			{path: "/api/scheduled-tasks/calendar", at: "query.from"},
			{path: calendarOf + "x", at: "query.to"},
			{path: calendarOf + "2029-01-01T00:00:00Z", at: "query.to"},
			{path: calendarOf + "2032-01-01T00:00:00Z", at: "query.to"},
		},
	},
	{
		method: "GET",
		path:   "/api/scheduled-tasks/preview",
		scope:  "schedules",
		url:    previewOf + "30%202%20*%20*%20*&timezone=UTC",
		status: 200,
		bad: []bad{
			{path: "/api/scheduled-tasks/preview", at: "query.cron"},
			{path: previewOf + "61%20*%20*%20*%20*", at: "query.cron"},
			{path: previewOf + "@daily&timezone=Nowhere", at: "query.timezone"},
			{path: previewOf + "@daily&count=51", at: "query.count"},
		},
	},
	{
		method:  "GET",
		path:    "/api/scheduled-tasks/{id}",
		scope:   "schedules",
		url:     "/api/scheduled-tasks/{t}",
		status:  200,
		missing: "/api/scheduled-tasks/" + none,
	},
	{
		method: "PATCH", path: "/api/scheduled-tasks/{id}", scope: "schedules", url: "/api/scheduled-tasks/{t}", status: 200, hasBody: true,
		body: `{"cron":"@hourly"}`, missing: "/api/scheduled-tasks/" + none, bad: []bad{
			{
				body: `{"cron":"61 * * * *"}`,
				at:   "body.cron",
			},
			{body: `{"timezone":"Local"}`, at: "body.timezone"},
			{body: `{"prompt":" "}`, at: "body.prompt"},
		},
	},
	{
		method: "POST", path: "/api/scheduled-tasks/{id}/start", scope: "schedules", url: "/api/scheduled-tasks/{t}/start", status: 200,
		missing: "/api/scheduled-tasks/" + none + "/start",
	},
	{
		method: "POST", path: "/api/scheduled-tasks/{id}/stop", scope: "schedules", url: "/api/scheduled-tasks/{t}/stop", status: 200,
		missing: "/api/scheduled-tasks/" + none + "/stop",
	},
	{
		method: "POST", path: "/api/scheduled-tasks/{id}/run", scope: "schedules", url: "/api/scheduled-tasks/{t}/run", status: 200,
		missing: "/api/scheduled-tasks/" + none + "/run",
	},
	{
		method:  "POST",
		path:    "/api/scheduled-tasks/{id}/backfill",
		scope:   "schedules",
		url:     "/api/scheduled-tasks/{t}/backfill",
		status:  200,
		hasBody: true,
		body:    `{"from":"2026-01-01T00:00:00Z","to":"2026-01-03T00:00:00Z"}`,
		missing: "/api/scheduled-tasks/" + none + "/backfill",
		bad: []bad{
			{body: `{"from":"2026-01-03T00:00:00Z","to":"2026-01-03T00:00:00Z"}`, at: "body.to"},
			{body: `{"from":"2026-01-01T00:00:00Z","to":"2126-01-01T00:00:00Z"}`, at: "body.to"},
			{body: `{"from":"2024-01-01T00:00:00Z","to":"2026-01-01T00:00:00Z"}`, at: "body.to"},
			{body: `{"from":"2025-01-01T00:00:00Z","to":"2025-12-01T00:00:00Z"}`, at: "body.to"},
		},
	},
	{
		method: "GET", path: "/api/scheduled-tasks/{id}/runs", scope: "schedules", url: "/api/scheduled-tasks/{t}/runs", status: 200,
		missing: "/api/scheduled-tasks/" + none + "/runs", bad: []bad{{path: "/api/scheduled-tasks/{t}/runs?limit=0", at: "query.limit"}},
	},
	{
		method:  "DELETE",
		path:    "/api/scheduled-tasks/{id}",
		scope:   "schedules",
		url:     "/api/scheduled-tasks/{t}",
		status:  204,
		missing: "/api/scheduled-tasks/" + none,
	},
}

// noEngine is a Temporal that does not answer: tasks are what their rows say.
type noEngine struct{ schedules.Engine }

var errNoEngine = errors.New("no Temporal")

func (noEngine) DescribeSchedule(context.Context, string) (schedule.Observed, bool, error) {
	return schedule.Observed{}, false, errNoEngine
}

func (noEngine) PushSchedule(context.Context, schedule.Task, *cron.Plan, string) (schedule.Observed, error) {
	return schedule.Observed{}, errNoEngine
}
func (noEngine) TriggerSchedule(context.Context, string, time.Time) error { return errNoEngine }
func (noEngine) BackfillSchedule(context.Context, string, time.Time, time.Time) error {
	return nil
}
func (noEngine) DeleteSchedule(context.Context, string) error { return errNoEngine }

// nodeTools lists the tools that nodes of DAGs can call.
func nodeTools(context.Context, string) []string { return []string{"Bash", "Read"} }

// scheduledTask makes a scheduled task of ann's, in place of those that ann has.
func (w *world) scheduledTask() string {
	w.t.Helper()
	_, err := w.db.Pool.Exec(w.t.Context(), `UPDATE scheduled_tasks SET deleted_at = now() WHERE owner_id = $1
		AND deleted_at IS NULL`, w.annID)
	require.NoError(w.t, err)
	task, err := w.db.CreateScheduledTask(w.t.Context(), w.annID, schedule.TaskSpec{
		Title: "t", Prompt: "p", Cron: "@daily", Timezone: "UTC", Enabled: true, Overlap: schedule.OverlapSkip,
	})
	require.NoError(w.t, err)

	return task.ID
}

func TestScheduledTasks_limit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	body := `{"title":"t","prompt":"p","cron":"@daily","enabled":false}`
	for range schedule.MaxTasks {
		require.Equal(t, 201, w.do(http.MethodPost, "/api/scheduled-tasks", w.ann, body).status)
	}

	w.do(http.MethodPost, "/api/scheduled-tasks", w.ann, body).code(409, "scheduled_task_limit")
	require.Equal(t, 201, w.do(http.MethodPost, "/api/scheduled-tasks", w.bob, body).status)

	var list []map[string]any
	require.NoError(t, json.Unmarshal([]byte(w.do(http.MethodGet, "/api/scheduled-tasks", w.bob, "").text), &list))
	require.Len(t, list, 1)
	require.Nil(t, list[0]["next_run_at"])
}

func TestScheduledTasks_nullEmptiesModeAndNetwork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.scheduledTask()
	_, err := w.db.ChangeScheduledTask(t.Context(), w.annID, id, func(task *schedule.Task) error {
		task.Mode, task.Network = new(domain.ModePlanning), domain.NetworkNone
		return nil
	})
	require.NoError(t, err)

	one := "/api/scheduled-tasks/" + id
	emptied := w.do("PATCH", one, w.ann, `{"mode":null,"network":null}`).json()
	require.Nil(t, emptied["mode"])
	require.NotContains(t, emptied, "network")
	w.do("PATCH", one, w.ann, `{"network":"all"}`).code(422, "invalid_request")

	require.Equal(t, "planning", w.do("PATCH", one, w.ann, `{"mode":"planning"}`).json()["mode"])
	require.Equal(t, "planning", w.do("PATCH", one, w.ann, `{"title":"u"}`).json()["mode"])
}

func TestScheduledTasks_errorsNameTheCronField(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.do(http.MethodPost, "/api/scheduled-tasks", w.ann, `{"title":"t","prompt":"p","cron":"0 25 * * *"}`)
	r.code(422, "invalid_cron")
	require.True(t, strings.Contains(r.text, "hour: "), r.text)
}

// Members of the workspace of a task may read it, and only its owner may change it.
func TestScheduledTasks_ofAWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	const at = "/api/scheduled-tasks"

	workspace := w.do("POST", "/api/prod_workspaces", w.ann, `{"name":"Reports"}`).json()["id"].(string)
	body := `{"title":"t","prompt":"p","cron":"@daily","enabled":false,"workspace_id":"` + workspace + `"}`
	w.do("POST", at, w.bob, body).code(404, "workspace_not_found")
	task := w.do("POST", at, w.ann, body).json()["id"].(string)
	listed := func(key string) int {
		var list []map[string]any

		require.NoError(t, json.Unmarshal([]byte(w.do("GET", at+"?workspace_id="+workspace, key, "").text), &list))

		return len(list)
	}

	require.Equal(t, []int{1, 0}, []int{listed(w.ann), listed(w.bob)})
	w.do("GET", at+"/"+task, w.bob, "").code(404, "scheduled_task_not_found")

	w.joins(workspace, "bob", w.bob, "viewer")
	added := w.do("GET", "/api/auth/me", w.bob, "").json()["id"].(string)
	require.Equal(t, []int{1, 1}, []int{listed(w.ann), listed(w.bob)})
	require.Equal(t, workspace, w.do("GET", at+"/"+task, w.bob, "").json()["workspace_id"])
	require.Equal(t, 200, w.do("GET", at+"/"+task+"/runs", w.bob, "").status)
	require.Equal(t, "[]", strings.TrimSpace(w.do("GET", at, w.bob, "").text), "those of others are in no list without the workspace")

	w.do("PATCH", at+"/"+task, w.bob, `{"model":"none such"}`).code(403, "forbidden")
	w.do("DELETE", at+"/"+task, w.bob, "").code(403, "forbidden")

	for _, act := range []string{"/start", "/stop", "/run"} {
		w.do("POST", at+"/"+task+act, w.bob, "").code(403, "forbidden")
	}

	require.Equal(t, 200, w.do("DELETE", "/api/prod_workspaces/"+workspace+"/members/"+added, w.ann, "").status)
	w.do("GET", at+"/"+task+"/runs", w.bob, "").code(404, "scheduled_task_not_found")
	w.do("POST", at+"/"+task+"/run", w.bob, "").code(404, "scheduled_task_not_found")
}
