package api_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const formsSkill = `---\nname: forms\ndescription: Fills in forms. Use it for forms.\nmetadata:\n  version: 1.0.0\n---\nDo it.`

const formsUpload = `{"name":"forms","files":[{"path":"SKILL.md","content":"` + formsSkill + `"},{"path":"scripts/run.sh","content":"#!/bin/sh\n"}]}`

var skillWalk = []call{
	{method: "GET", path: "/api/skills", scope: "skills", url: "/api/skills", status: 200},
	{method: "GET", path: "/api/skills/installed", scope: "skills", url: "/api/skills/installed", status: 200},
	{method: "GET", path: "/api/skills/search", scope: "skills", url: "/api/skills/search?q=git", status: 200, bad: []bad{
		{path: "/api/skills/search", at: "query.q"},
		{path: "/api/skills/search?q=", at: "query.q"},
		{path: "/api/skills/search?q=a&limit=0", at: "query.limit"},
		{path: "/api/skills/search?q=a&limit=51", at: "query.limit"},
		{path: "/api/skills/search?q=a&limit=x", at: "query.limit"},
	}},
	{
		method:  "GET",
		path:    "/api/skills/{skill_id}",
		scope:   "skills",
		url:     "/api/skills/builtin:git-workflow",
		status:  200,
		missing: "/api/skills/none",
	},
	{
		method:  "GET",
		path:    "/api/sessions/{session_id}/skills",
		scope:   "sessions:read",
		url:     "/api/sessions/{s}/skills",
		status:  200,
		missing: "/api/sessions/" + none + "/skills",
	},
	{
		method:  "GET",
		path:    "/api/sessions/{session_id}/skill-stats",
		scope:   "sessions:read",
		url:     "/api/sessions/{s}/skill-stats",
		status:  200,
		missing: "/api/sessions/" + none + "/skill-stats",
	},
	{
		method:  "POST",
		path:    "/api/sessions/{session_id}/skills:upload",
		scope:   "sessions:write",
		url:     "/api/sessions/{s}/skills:upload",
		status:  200,
		hasBody: true,
		body:    formsUpload,
		missing: "/api/sessions/" + none + "/skills:upload",
		bad: []bad{
			{body: `{"files":[]}`, at: "body.name"},
			{body: `{"name":"forms"}`, at: "body.files"},
			{body: `{"name":"forms","files":[]}`, at: "body.files"},
			{body: `{"name":5,"files":[{"path":"a","content":"b"}]}`, at: "body.name"},
			{body: `{"name":"forms","files":[{"path":"a"}]}`, at: "body.files[0].content"},
			{body: `{"name":"../x","files":[{"path":"SKILL.md","content":"x"}]}`, at: "body.name"},
			{body: `{"name":"forms","files":[{"path":"../SKILL.md","content":"x"}]}`, at: "body.files[0].path"},
			{body: `{"name":"forms","files":[{"path":"SKILL.md","content":"no front matter"}]}`, at: "body.files"},
			{body: `{"name":"other","files":[{"path":"SKILL.md","content":"` + formsSkill + `"}]}`, at: "body.name"},
			{body: `{"name":"forms","files":[{"path":"SKILL.md","content":"%%","encoding":"base64"}]}`, at: "body.files[0].content"},
			{body: `{"name":"forms","files":[{"path":"SKILL.md","content":"","encoding":"latin-1"}]}`, at: "body.files[0].encoding"},
		},
	},
	{
		method:  "POST",
		path:    "/api/sessions/{session_id}/skills/install",
		scope:   "sessions:write",
		url:     "/api/sessions/{s}/skills/install",
		status:  503,
		hasBody: true,
		body:    `{"org":"acme","name":"tables"}`,
		missing: "/api/sessions/" + none + "/skills/install",
		bad: []bad{
			{body: `{"name":"tables"}`, at: "body.org"},
			{body: `{"org":"acme"}`, at: "body.name"},
			{body: `{"org":"a/b","name":"tables"}`, at: "body.org"},
			{body: `{"org":"acme","name":"Tables"}`, at: "body.name"},
			{body: `{"org":"acme","name":"tables","version":"new"}`, at: "body.version"},
			{body: `{"org":"acme","name":"tables","digest":"x"}`, at: "body.digest"},
			{body: `{"org":["acme"],"name":"tables"}`, at: "body.org"},
		},
	},
	{
		method:  "POST",
		path:    "/api/sessions/{session_id}/skills:resync",
		scope:   "sessions:write",
		url:     "/api/sessions/{s}/skills:resync",
		status:  200,
		missing: "/api/sessions/" + none + "/skills:resync",
	},
}

// named finds an item of a list by its name.
func named(items any, name string) map[string]any {
	list, _ := items.([]any)
	for _, item := range list {
		if found := item.(map[string]any); found["name"] == name {
			return found
		}
	}

	return nil
}

func TestSkillsOfASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := w.session(`{}`)
	base := "/api/sessions/" + session
	r := w.do("POST", base+"/skills:upload", w.ann, formsUpload)
	require.Equal(t, map[string]any{"name": "forms", "skill_dir": ".skills/forms", "file_count": 2.0, "overwritten": false}, r.json())
	require.Equal(t, true, w.do("POST", base+"/skills:upload", w.ann, formsUpload).json()["overwritten"])
	require.Contains(t, w.do("GET", base+"/files/.skills/forms/SKILL.md", w.ann, "").text, "Do it.")

	list := w.do("GET", base+"/skills", w.ann, "").json()
	require.EqualValues(t, len(list["items"].([]any)), list["total"])
	forms := named(list["items"], "forms")
	require.Equal(t, "uploaded", forms["source"])
	require.Equal(t, true, forms["enabled"])
	require.Equal(t, false, forms["update_available"])
	require.Regexp(t, `^sha256:[0-9a-f]{64}$`, forms["digest"])
	require.NotEmpty(t, forms["installed_at"])

	builtin := named(list["items"], "git-workflow")
	require.Equal(t, "builtin", builtin["source"])
	require.Nil(t, builtin["installed_at"])

	setup := w.do("GET", base, w.ann, "").json()["session_setup"].(map[string]any)["skills"]
	require.Equal(
		t,
		map[string]any{"name": "forms", "version": "1.0.0", "digest": forms["digest"], "source": "uploaded"},
		named(setup, "forms"),
	)

	detail := w.do("GET", "/api/skills/"+forms["id"].(string), w.ann, "").json()
	require.Equal(t, "Do it.", detail["readme"])
	require.Equal(
		t,
		[]any{map[string]any{"path": "SKILL.md", "size": 100.0}, map[string]any{"path": "scripts/run.sh", "size": 10.0}},
		detail["files"],
	)
	require.Equal(t, "forms", detail["frontmatter"].(map[string]any)["name"])
	require.Equal(t, []any{}, detail["required_env"])
	w.do("GET", "/api/skills/"+forms["id"].(string), w.bob, "").code(404, "skill_not_found")

	// Others see a shared session's skills and cannot change them.
	require.Equal(t, 200, w.do("PATCH", base+"/sharing", w.ann, `{"shared":true}`).status)
	require.NotNil(t, named(w.do("GET", base+"/skills", w.bob, "").json()["items"], "forms"))
	w.do("POST", base+"/skills:upload", w.bob, formsUpload).code(403, "forbidden")
	w.do("POST", base+"/skills:resync", w.bob, "").code(403, "forbidden")

	// A change by hand is noticed, and taken note of.
	require.Equal(t, 200, w.do("PUT", base+"/files/.skills/forms/more.md", w.ann, `{"content":"x"}`).status)
	require.Equal(t, 200, w.do("PUT", base+"/files/.skills/broken/SKILL.md", w.ann, `{"content":"x"}`).status)
	changed := w.do("GET", base+"/skills", w.ann, "").json()["items"]
	require.Equal(t, true, named(changed, "forms")["changed"])
	require.NotEqual(t, forms["digest"], named(changed, "forms")["digest"])
	require.Equal(t, false, named(changed, "broken")["enabled"])
	require.NotEmpty(t, named(changed, "broken")["problem"])

	resync := w.do("POST", base+"/skills:resync", w.ann, "").json()
	require.Equal(t, []any{"forms"}, resync["updated"])
	require.Equal(t, []any{}, resync["added"])
	require.Equal(t, []any{}, resync["removed"])
	require.NotNil(t, named(resync["failed"], "broken"))
	require.Equal(t, "0 added, 1 updated, 0 removed, 1 cannot be used", resync["detail"])

	stats := w.do("GET", base+"/skill-stats", w.ann, "").json()
	require.Equal(t, map[string]any{"items": []any{}, "total": 0.0}, stats)
	w.do("POST", base+"/skills/install", w.ann, `{"org":"acme","name":"tables"}`).code(503, "registry_not_configured")
}

func TestSkillUploadBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := "/api/sessions/" + w.session(`{}`) + "/skills:upload"
	entry := func(i int) string { return fmt.Sprintf(`{"path":"f%d","content":""}`, i) }
	many := func(n int) string {
		list := []string{`{"path":"SKILL.md","content":"` + formsSkill + `"}`}
		for i := range n - 1 {
			list = append(list, entry(i))
		}

		return `{"name":"forms","files":[` + strings.Join(list, ",") + `]}`
	}
	require.EqualValues(t, 500, w.do("POST", path, w.ann, many(500)).json()["file_count"])
	require.Contains(t, w.do("POST", path, w.ann, many(501)).fields(), "body.files")

	large := `{"name":"forms","files":[{"path":"SKILL.md","content":"` + formsSkill + strings.Repeat("x", 9<<20) + `"}]}`
	r := w.do("POST", path, w.ann, large)
	r.code(422, "invalid_skill")
	require.Less(t, len(r.text), 5000)
	w.do("POST", path, w.ann, strings.Replace(large, "xxxx", strings.Repeat("x", 2<<20), 1)).problem(413)

	binary := base64.StdEncoding.EncodeToString([]byte{0, 1, 2, 0xff})
	body := `{"name":"forms","files":[{"path":"forms/SKILL.md","content":"` + formsSkill + `"},{"path":"forms/a.bin","content":"` + binary + `","encoding":"base64"}]}`
	require.EqualValues(t, 2, w.do("POST", path, w.ann, body).json()["file_count"])
	require.Equal(t, "\x00\x01\x02\xff", w.do("GET", strings.TrimSuffix(path, "skills:upload")+"files/.skills/forms/a.bin", w.ann, "").text)

	again := header("Idempotency-Key", "one")
	first := w.do("POST", path, w.ann, formsUpload, again)
	require.Equal(t, first.text, w.do("POST", path, w.ann, formsUpload, again).text)
}

func TestPrimarySkillOfASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	detail := func(body string) map[string]any {
		return w.do("GET", "/api/sessions/"+w.session(body), w.ann, "").json()
	}
	require.Nil(t, detail(`{}`)["primary_skill_snapshot"])
	require.Nil(t, detail(`{"primary_skill_id":""}`)["primary_skill_snapshot"])
	require.Nil(t, detail(`{"primary_skill_id":"no-such-skill"}`)["primary_skill_snapshot"])

	for _, id := range []string{"git-workflow", "builtin:git-workflow"} {
		d := detail(`{"primary_skill_id":"` + id + `"}`)
		require.Equal(t, id, d["primary_skill_id"])
		snapshot := d["primary_skill_snapshot"].(map[string]any)
		require.Equal(t, "builtin:git-workflow", snapshot["skill_id"])
		require.Equal(t, "git-workflow", snapshot["name"])
		require.EqualValues(t, 2, snapshot["files_count"])
		require.NotEmpty(t, snapshot["taken_at"])
		path := fmt.Sprintf("/api/sessions/%s/files/%s/SKILL.md", d["id"], snapshot["path"])
		require.Contains(t, w.do("GET", path, w.ann, "").text, "Working with git")
	}
}
