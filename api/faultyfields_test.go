package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each 422 names the field at fault, also where it is refused further in than
// the request is known (docs/errors.md).
func TestRefusalsNameTheirField(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := "/api/sessions/" + w.session(`{}`)
	w.do(http.MethodPut, session+"/files/dir/file", w.ann, `{"content":"x"}`).json()

	for _, tc := range []struct{ method, path, body, field string }{
		{"POST", "/api/sessions", `{"intent":"a\u0000b"}`, "body.intent"},
		{"POST", "/api/sessions", `{"disable_tools":["a","\u0000"]}`, "body.disable_tools[1]"},
		{"POST", session + "/upset_extra_info", `{"extra":{"deep":[{"text":"\u0000"}]}}`, "body.extra.deep[0].text"},
		{"POST", session + "/upset_extra_info", `{"extra":{"a\u0000":1}}`, "body.extra"},
		{"POST", session + "/upset_extra_info", `{"extra":{"n":"\ud800"}}`, "body.extra.n"},
		{"POST", session + "/upset_extra_info", `{"extra":{"n":{"\udfff\ud800":1}}}`, "body.extra.n"},
		{"POST", session + "/chat", `{"message":"x","output_schema":{"description":"\ud800"}}`, "body.output_schema.description"},
		{"POST", session + "/chat", `{"message":"x","output_schema":{"properties":{"\ud800":{}}}}`, "body.output_schema.properties"},
		{"POST", session + "/chat", `{"message":"x","output_schema":{"title":"a\u0000b"}}`, "body.output_schema.title"},
		{
			"POST", session + "/chat", `{"askuser_answer":{"tool_call_id":"a\u0000b","selections":{"0":[0]}}}`,
			"body.askuser_answer.tool_call_id",
		},
		{"GET", "/api/sessions?q=%00", "", "query.q"},
		{"GET", "/api/sessions?template_id_prefix=%FF", "", "query.template_id_prefix"},
		{"GET", "/api/sessions/a%00b", "", "path.session_id"},
		{"POST", "/api/sessions/tokenize/prompt", `{"prompt":"x","model":"nope"}`, "body.model"},
		{"POST", "/api/sessions/tokenize/messages", `{"messages":[],"model":"nope"}`, "body.model"},
		{"GET", session + "/ls/dir/file", "", "path.dir_path"},
		{"GET", session + "/download-dir/dir/file", "", "path.dir_path"},
		{"GET", session + "/files/dir", "", "path.file_path"},
		{"PUT", session + "/files/dir", `{"content":"x"}`, "path.file_path"},
		{"PUT", session + "/files/%ff.txt", `{"content":"x"}`, "path.file_path"},
		{"PUT", session + "/files/%ff/new.txt", `{"content":"x"}`, "path.file_path"},
		{"DELETE", session + "/files/.", "", "path.file_path"},
		{"POST", session + "/files/dir/copy", `{"target_path":"dir/in"}`, "path.file_path"},
		{"POST", session + "/files/./rename", `{"new_name":"n"}`, "path.file_path"},
	} {
		require.Equal(t, []string{tc.field}, w.do(tc.method, tc.path, w.ann, tc.body).fields(), "%s %s %s", tc.method, tc.path, tc.body)
	}
}

// The digest is that of the prompt that the session has: its solution adds to it.
func TestThePromptsDigestIsTheSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	digest := func(body string) any {
		detail := w.do(http.MethodGet, "/api/sessions/"+w.session(body), w.ann, "").json()
		return detail["session_setup"].(map[string]any)["system_prompt_digest"]
	}
	plain := digest(`{}`)
	require.Equal(t, plain, digest(`{"intent":"another"}`))
	require.NotEqual(t, plain, digest(`{"solution_id":"skill_editor"}`))
}
