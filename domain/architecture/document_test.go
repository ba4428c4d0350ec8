package architecture

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func parse(t *testing.T, text string) Document {
	t.Helper()

	var d Document
	require.NoError(t, json.Unmarshal([]byte(text), &d))

	return d
}

func TestValidate(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		document string
		want     []string
	}{
		"empty": {`{"nodes":[]}`, nil},
		"whole": {`{"nodes":[{"id":"a","type":"group"},{"id":"b","type":"service","parent_id":"a","links":[{"target_id":"a"},{"target_id":"b"}]}]}`, nil},
		"duplicate": {
			`{"nodes":[{"id":"a","type":"group"},{"id":"a","type":"group","parent_id":"a"}]}`, []string{"duplicate_id nodes[1].id"},
		},
		"dangling link":   {`{"nodes":[{"id":"a","type":"user","links":[{"target_id":"a"},{"target_id":"x"}]}]}`, []string{"dangling_link nodes[0].links[1].target_id"}},
		"dangling parent": {`{"nodes":[{"id":"a","type":"user","parent_id":"x"}]}`, []string{"dangling_link nodes[0].parent_id"}},
		"own parent":      {`{"nodes":[{"id":"a","type":"group","parent_id":"a"}]}`, []string{"parent_cycle nodes[0].parent_id"}},
		"cycle of two": {
			`{"nodes":[{"id":"a","type":"group","parent_id":"b"},{"id":"b","type":"group","parent_id":"a"},{"id":"c","type":"group","parent_id":"a"}]}`,
			[]string{"parent_cycle nodes[0].parent_id", "parent_cycle nodes[1].parent_id"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := Validate(parse(t, tc.document))

			var got []string
			for _, f := range result.Errors {
				got = append(got, f.Code+" "+f.Path)
				require.NotEmpty(t, f.NodeID)
			}

			require.Equal(t, tc.want, got)
			require.Equal(t, len(got) == 0, result.Valid)
		})
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	from := parse(t, `{"nodes":[{"id":"a","type":"user","tags":["x"]},{"id":"b","type":"queue"}]}`)
	to := parse(t, `{"nodes":[{"id":"b","type":"queue","technology":"NATS"},{"id":"c","type":"agent"}],"viewport":{"x":1,"y":2,"zoom":1}}`)
	d, err := Compare(from, to)
	require.NoError(t, err)
	require.Len(t, d.Nodes.Added, 1)
	require.Equal(t, "a", d.Nodes.Removed[0].ID)
	require.Equal(t, "technology", d.Nodes.Changed[0].Fields[0].Field)
	nodes, links := parse(t, `{"nodes":[{"id":"a","type":"user","links":[{"target_id":"a"},{"target_id":"b"}]}]}`).Counts()
	require.Equal(t, []int{1, 2}, []int{nodes, links})

	text, err := Document{}.Encode()
	require.NoError(t, err)
	require.Equal(t, `{"nodes":[]}`, string(text))
}

// Answers have every list, the stored form has no empty one.
func TestDocument_Listed(t *testing.T) {
	t.Parallel()

	var d Document

	require.NoError(t, json.Unmarshal([]byte(`{"nodes":[{"id":"a","type":"agent","tags":[]}]}`), &d))

	stored, err := d.Encode()
	require.NoError(t, err)
	require.JSONEq(t, `{"nodes":[{"id":"a","type":"agent"}]}`, string(stored))

	answer, err := json.Marshal(d.Listed())
	require.NoError(t, err)
	require.JSONEq(t, `{"nodes":[{"id":"a","type":"agent","links":[],"tags":[],"refs":[]}]}`, string(answer))
}
