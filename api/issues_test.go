package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIssues_assigneeTypeAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := "/api/prod_workspaces/" + w.boardOfAnn().workspace + "/issues"
	id := w.do("POST", at, w.ann, `{"title":"Typed"}`).json()["id"].(string)

	for _, kind := range []string{"member", "agent", "squad"} { // it names no assignee
		r := w.do("POST", at, w.ann, `{"title":"Typed","assignee_type":"`+kind+`"}`)
		require.Equal(t, 200, r.status, r.text)
		require.Nil(t, r.json()["assignee_id"])
	}

	require.Equal(t, 200, w.do("PUT", at+"/"+id, w.ann, `{"assignee":"ann"}`).status)
	kept := w.do("PUT", at+"/"+id, w.ann, `{"assignee_type":"agent"}`).json()
	require.Equal(t, []any{"member", w.annID}, []any{kept["assignee_type"], kept["assignee_id"]})
	cleared := w.do("PUT", at+"/"+id, w.ann, `{"assignee_type":null}`).json()
	require.Nil(t, cleared["assignee_id"])
}
