//go:build linux

package snapshots

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"everloop/domain"
)

// kept is a snapshot with the tree as it was then.
type kept struct {
	id   string
	tree map[string]string
}

// TestAnyTreeComesBack changes random trees at random, captures, restores and
// compares, with a store that is restarted now and then.
func TestAnyTreeComesBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	run := 0

	rapid.Check(t, func(rt *rapid.T) {
		run++
		b.session = domain.SessionID("0190-run-" + strings.Repeat("i", run%100+1))
		b.clear(t)

		var all []kept

		previous := ""
		take := func() {
			now := picture(t, b.root)
			s := b.capture(t, previous)
			require.Equal(t, len(files(now)), s.Files)

			if previous != "" {
				before := last(all, previous)
				added, deleted, changed := counts(before, now)
				require.Equal(t, [3]int{added, deleted, changed}, [3]int{s.Added, s.Deleted, s.Changed})
			}

			for _, k := range all {
				require.Equal(t, same(k.tree, now), k.id == s.ID, "equal ids if and only if equal trees")
			}

			previous = s.ID
			all = append(all, kept{s.ID, now})
		}

		for range rapid.IntRange(3, 10).Draw(rt, "rounds") {
			for range rapid.IntRange(0, 5).Draw(rt, "changes") {
				b.mutate(t, rt)
			}

			switch rapid.IntRange(0, 5).Draw(rt, "then") {
			case 0:
				b.restart(t)
			case 1:
				if len(all) == 0 {
					continue
				}

				to := rapid.SampledFrom(all).Draw(rt, "to")
				require.Empty(t, b.restore(t, to.id).Skipped)
				require.Equal(t, to.tree, picture(t, b.root))
				require.Equal(t, to.id, b.capture(t, previous).ID)
				previous = to.id
			default:
				take()
			}
		}

		take()

		a, z := rapid.SampledFrom(all).Draw(rt, "a"), rapid.SampledFrom(all).Draw(rt, "z")
		changes, err := b.store.Diff(t.Context(), a.id, z.id)
		require.NoError(t, err)

		got := map[string]string{}
		for _, c := range changes {
			got[c.Path] = c.Change
		}

		require.Equal(t, difference(a.tree, z.tree), got)
	})
}

func (b *bench) clear(t testing.TB) {
	list, err := os.ReadDir(b.root)
	require.NoError(t, err)

	for _, e := range list {
		require.NoError(t, os.RemoveAll(filepath.Join(b.root, e.Name())))
	}
}

var (
	someNames    = []string{"a", "b", "a-b", "A", ".git", "sub", "x\ny", "\xff\xfe", "ü", " ", "-rf", strings.Repeat("n", 255)}
	someContents = []string{"", "x", "y", "same", strings.Repeat("long ", 2000), strings.Repeat("more", 5000), strings.Repeat("much", 5000)}
)

// mutate makes one change somewhere.
func (b *bench) mutate(t testing.TB, rt *rapid.T) {
	var parts []string
	for range rapid.IntRange(1, 3).Draw(rt, "depth") {
		parts = append(parts, rapid.SampledFrom(someNames).Draw(rt, "name"))
	}

	p := strings.Join(parts, "/")
	full := filepath.Join(b.root, p)

	var err error

	switch rapid.IntRange(0, 7).Draw(rt, "what") {
	case 0, 1, 2: // write; over a link it is the link's target that is written
		b.clearWay(t, parts)

		_ = os.RemoveAll(full)

		b.put(t, p, rapid.SampledFrom(someContents).Draw(rt, "content"))
	case 3:
		b.clearWay(t, parts)

		_ = os.RemoveAll(full)

		b.mkdir(t, p)
	case 4:
		b.clearWay(t, parts)

		_ = os.RemoveAll(full)

		b.mkdir(t, filepath.Dir(p))
		b.link(t, rapid.SampledFrom([]string{"a", "../..", "/etc", "none", "\xff"}).Draw(rt, "target"), p)
	case 5:
		_ = os.RemoveAll(full) // a part of the way may be a file
	case 6:
		if info, missing := os.Lstat(full); missing == nil && info.Mode()&os.ModeSymlink == 0 {
			mode := rapid.SampledFrom([]os.FileMode{0o600, 0o644, 0o755, 0o700}).Draw(rt, "mode")
			if info.IsDir() {
				mode |= 0o700
			}

			err = os.Chmod(full, mode)
		}
	case 7:
		to := filepath.Join(b.root, rapid.SampledFrom(someNames).Draw(rt, "to"))
		_ = os.Rename(full, to) // may be impossible
	}

	require.NoError(t, err)
}

// clearWay ensures that no part of the way to a path is a file or link.
func (b *bench) clearWay(t testing.TB, parts []string) {
	at := b.root
	for _, name := range parts[:len(parts)-1] {
		at = filepath.Join(at, name)
		if info, err := os.Lstat(at); err == nil && !info.IsDir() {
			require.NoError(t, os.Remove(at))
		}
	}
}

func isDir(shown string) bool { return strings.HasPrefix(shown, "directory ") }

func files(tree map[string]string) (out []string) {
	for p, shown := range tree {
		if !isDir(shown) {
			out = append(out, p)
		}
	}

	return out
}

func last(all []kept, id string) map[string]string {
	i := slices.IndexFunc(all, func(k kept) bool { return k.id == id })
	return all[i].tree
}

func counts(before, now map[string]string) (added, deleted, changed int) {
	for _, p := range files(now) {
		old, there := before[p]
		switch {
		case !there || isDir(old):
			added++
		case old != now[p]:
			changed++
		}
	}

	for _, p := range files(before) {
		if shown, there := now[p]; !there || isDir(shown) {
			deleted++
		}
	}

	return added, deleted, changed
}

func difference(a, z map[string]string) map[string]string {
	out := map[string]string{}

	for p, shown := range a {
		switch now, there := z[p]; {
		case !there:
			out[p] = Deleted
		case now != shown:
			out[p] = Modified
		}
	}

	for p := range z {
		if _, there := a[p]; !there {
			out[p] = Created
		}
	}

	return out
}

func same(a, z map[string]string) bool { return len(difference(a, z)) == 0 }
