package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPatch_unchangeableFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := w.do("POST", "/api/sessions", w.ann, `{}`).json()["session_id"].(string)
	one := "/api/sessions/" + session

	for _, body := range []string{
		`{"disable_tools":["Bash"]}`, `{"solution_id":null}`, `{"status":"completed"}`, `{"intent":"x","model":"m","is_pinned":true}`,
	} {
		r := w.do("PATCH", one, w.ann, body)
		r.code(422, "invalid_request")
		require.NotContains(t, r.fields(), "body.intent")
	}

	w.do("PATCH", one, w.ann, `{"intent":"x","nothing declares this":1}`).json()
	require.Equal(t, []string{"body.disable_tools"}, w.do("PATCH", one, w.ann, `{"intent":"x","disable_tools":[]}`).fields())
}
