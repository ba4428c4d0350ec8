package dagrun_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain/dag"
	"everloop/domain/dagrun"
)

func setOf(item int, names ...string) dagrun.FileSet {
	set := dagrun.FileSet{Item: item, Snapshot: "s"}
	for _, name := range names {
		set.Files = append(set.Files, dagrun.OutputFile{Path: name, SHA256: "sum of " + name})
	}

	return set
}

func TestPlace(t *testing.T) {
	t.Parallel()

	files := []string{"a.txt", "report/one.md", "report/sub/two.md", "report/.hidden"}
	items := []dagrun.FileSet{setOf(0, "out/x"), setOf(3, "out/x")}

	for name, tc := range map[string]struct {
		in   dag.InputFiles
		sets []dagrun.FileSet // nil: one of files
		want string
	}{
		"all":                          {in: dag.InputFiles{}, want: strings.Join(files, " ")},
		"all into a directory":         {in: dag.InputFiles{To: "in"}, want: "in/" + strings.Join(files, " in/")},
		"a pattern":                    {in: dag.InputFiles{Path: "report/**"}, want: "report/one.md report/sub/two.md report/.hidden"},
		"a pattern into a directory":   {in: dag.InputFiles{Path: "report/**", To: "in"}, want: "in/one.md in/sub/two.md in/.hidden"},
		"names of a directory":         {in: dag.InputFiles{Path: "report/*.md", To: "in/"}, want: "in/one.md"},
		"a pattern without files":      {in: dag.InputFiles{Path: "*.csv", To: "in"}, want: ""},
		"a directory":                  {in: dag.InputFiles{Path: "report"}, want: "report/one.md report/sub/two.md report/.hidden"},
		"a directory renamed":          {in: dag.InputFiles{Path: "report/", To: "in"}, want: "in/one.md in/sub/two.md in/.hidden"},
		"a file":                       {in: dag.InputFiles{Path: "./report/one.md"}, want: "report/one.md"},
		"a file renamed":               {in: dag.InputFiles{Path: "report/one.md", To: "in/1.md"}, want: "in/1.md"},
		"a file into a directory":      {in: dag.InputFiles{Path: "report/one.md", To: "in/"}, want: "in/one.md"},
		"a missing file":               {in: dag.InputFiles{From: "n", Path: "report/on"}, want: "file_missing"},
		"a missing file of no node":    {in: dag.InputFiles{From: "n", Path: "x"}, sets: []dagrun.FileSet{}, want: ""},
		"items":                        {in: dag.InputFiles{To: "in"}, sets: items, want: "in/0/out/x in/3/out/x"},
		"items of a pattern":           {in: dag.InputFiles{Path: "out/*", To: "in"}, sets: items, want: "in/0/x in/3/x"},
		"a file of items":              {in: dag.InputFiles{Path: "out/x", To: "in"}, sets: items, want: "in/0/x in/3/x"},
		"a file of items where it was": {in: dag.InputFiles{Path: "out/x"}, sets: items, want: "0/out/x 3/out/x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			sets := tc.sets
			if sets == nil {
				sets = []dagrun.FileSet{setOf(dagrun.NoItem, files...)}
			}

			placed, failure := dagrun.Place(tc.in, sets)
			if failure != nil {
				require.Equal(t, tc.want, failure.Code)
				return
			}

			var got []string
			for _, p := range placed {
				got = append(got, p.To)
			}

			require.Equal(t, tc.want, strings.Join(got, " "))
		})
	}
}

// What a node is given is the same when the files in its workspace are, whatever the snapshot is.
func TestGiven(t *testing.T) {
	t.Parallel()

	in := dag.InputFiles{From: "a", To: "in"}
	digest := func(sets ...dagrun.FileSet) string {
		placed, failure := dagrun.Place(in, sets)
		require.Nil(t, failure)

		return dagrun.Given(in, placed).Digest
	}

	other := setOf(dagrun.NoItem, "x")
	other.Snapshot = "other"
	changed := setOf(dagrun.NoItem, "x")
	changed.Files[0].SHA256 = "other"

	require.Equal(t, digest(setOf(dagrun.NoItem, "x")), digest(other))
	require.NotEqual(t, digest(other), digest(changed))
	require.NotEqual(t, digest(other), digest(setOf(0, "x")))
}

func TestCheckNames(t *testing.T) {
	t.Parallel()

	n := dag.Node{Outputs: &dag.Outputs{Files: []string{"dir", "./a.txt", "*.md"}}}
	check := func(names ...string) string {
		if failure := dagrun.CheckNames(n, setOf(dagrun.NoItem, names...).Files); failure != nil {
			return failure.Code
		}

		return ""
	}

	require.Empty(t, check("dir/x", "a.txt"))
	require.Equal(t, dagrun.CodeFileMissing, check("a.txt"), "nothing is in dir")
	require.Equal(t, dagrun.CodeFileMissing, check("dir/x", "b.md"))
	require.Equal(t, dagrun.CodeInvalidOutput, check("dir/x", "a.txt", "\xff.md"))
	require.Equal(t, dagrun.CodeInvalidOutput, check("dir/x", "a.txt", strings.Repeat("x", 1001)))

	selects := dagrun.Selects(n)
	for name, want := range map[string]bool{"dir/sub/x": true, "dirt": false, "a.txt": true, "x.md": true, "sub/x.md": false} {
		require.Equal(t, want, selects(name), name)
	}
}
