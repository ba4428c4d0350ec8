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
		require.Equal(t, []string{"body.assignee_id"}, r.fields())
	}

	require.Equal(t, 200, w.do("PUT", at+"/"+id, w.ann, `{"assignee":"ann"}`).status)
	kept := w.do("PUT", at+"/"+id, w.ann, `{"assignee_type":"agent"}`).json()
	require.Equal(t, []any{"member", w.annID}, []any{kept["assignee_type"], kept["assignee_id"]})
	cleared := w.do("PUT", at+"/"+id, w.ann, `{"assignee_type":null}`).json()
	require.Nil(t, cleared["assignee_id"])
	require.Equal(t, 200, w.do("POST", at, w.ann, `{"title":"Typed","assignee_type":null}`).status)
}

func TestIssues_timelineCursors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := "/api/prod_workspaces/" + w.boardOfAnn().workspace + "/issues"
	at += "/" + w.do("POST", at, w.ann, `{"title":"x"}`).json()["id"].(string) + "/timeline"

	page := w.do("GET", at, w.ann, "").json()
	require.Equal(t, 200, w.do("GET", at+"?after="+page["after"].(string), w.ann, "").status)

	for _, name := range []string{"before", "after"} {
		require.Equal(t, []string{"query." + name}, w.do("GET", at+"?"+name+"=zz", w.ann, "").fields())
	}
}
