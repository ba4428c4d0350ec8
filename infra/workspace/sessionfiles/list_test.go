//go:build linux

package sessionfiles

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestListShowsWhatLinksLeadTo(t *testing.T) {
	b := newBench(t, 0)
	b.put(t, "dir/file", "12345")
	b.put(t, "z", "")

	for name, target := range map[string]string{"to-dir": "dir", "to-file": "dir/file", "nowhere": "gone", "out": "../../etc"} {
		require.NoError(t, os.Symlink(target, filepath.Join(b.host, name)))
	}

	list, err := b.List(t.Context(), b.session, "")
	require.NoError(t, err)

	type entry struct {
		name string
		dir  bool
		size int64
	}

	var got []entry

	for _, info := range list {
		e := entry{info.Name, info.Dir, info.Size}
		if e.dir {
			e.size = 0
		}

		got = append(got, e)
	}

	require.Equal(t, []entry{
		{"dir", true, 0},
		{"to-dir", true, 0},
		{"nowhere", false, 4},
		{"out", false, 9},
		{"to-file", false, 5},
		{"z", false, 0},
	}, got)
	inner, err := b.List(t.Context(), b.session, "to-dir")
	require.NoError(t, err)
	require.Equal(t, []string{"file"}, namesOf(inner))
}

func namesOf(list []domain.FileInfo) []string {
	names := make([]string, len(list))
	for i, info := range list {
		names[i] = info.Name
	}

	return names
}
