//go:build linux

package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/internal/diskspace"
)

// room limits the store so that the workspace may grow by n bytes, and opens a quota.
func (w *Workspace) room(t *testing.T, n int64) *Quota {
	t.Helper()
	used, err := diskspace.Measure(t.Context(), w.host, diskspace.Usage{})
	require.NoError(t, err)

	w.store.limits = Limits{Bytes: used.Bytes + n}

	return w.quota(t)
}

func (w *Workspace) quota(t *testing.T) *Quota {
	t.Helper()
	q, err := w.Quota(t.Context())
	require.NoError(t, err)

	return q
}

// takes reports whether there was room for n bytes.
func (q *Quota) takes(n int64) bool { return q.Take(diskspace.Usage{Bytes: n}) == nil }

func bytesOf(n int64) diskspace.Usage { return diskspace.Usage{Bytes: n} }

func TestQuota_writersShareIt(t *testing.T) {
	w := open(t)
	w.put(t, "old", strings.Repeat("x", 8192))

	first := w.room(t, 1000)
	defer first.Close()

	second := w.quota(t)
	require.True(t, first.takes(600))
	require.False(t, second.takes(600), "they are the first one's")
	require.EqualValues(t, 400, second.left())
	require.True(t, second.takes(400))
	require.False(t, first.takes(1))
	first.give(bytesOf(100))
	require.True(t, second.takes(100))
	second.Close()
	require.EqualValues(t, 500, first.left())

	// What is deleted is room again once it is measured.
	require.False(t, first.takes(501))
	require.NoError(t, w.Remove(t.Context(), "old", false))

	third := w.quota(t)
	defer third.Close()

	require.Greater(t, third.left(), int64(8192))

	other, err := w.store.Open(t.Context(), "another", testUID)
	require.NoError(t, err)

	defer other.Close()

	q := other.quota(t)
	defer q.Close()

	require.True(t, q.takes(1000), "a workspace has one owner")

	var unbounded *Quota
	require.True(t, unbounded.takes(1<<62))
	unbounded.Close()
}

func TestQuota_noMoreIsTakenThanThereIs(t *testing.T) {
	w := open(t)
	w.room(t, 100_000).Close()

	var (
		taken atomic.Int64
		all   sync.WaitGroup
	)
	for range 16 {
		all.Go(func() {
			q, err := w.Quota(t.Context())
			if err != nil {
				t.Error(err)
				return
			}

			for range 1000 {
				if q.takes(70) {
					taken.Add(70)
				}
			}

			w.forget() // the next is measured next to the others
			t.Cleanup(q.Close)
		})
	}

	all.Wait()
	require.LessOrEqual(t, taken.Load(), int64(100_000))
	require.Greater(t, taken.Load(), int64(100_000-70))
}

// The memory of sizes is only a cache, but it forgets no writer.
func TestQuota_outlivesTheCache(t *testing.T) {
	w := open(t)

	q := w.room(t, 1000)
	defer q.Close()

	require.True(t, q.takes(1000))

	u := &w.store.usage
	u.mu.Lock()
	for i := range maxMeasured + 10 {
		u.of(string(rune(i)) + "/elsewhere")
	}

	require.LessOrEqual(t, len(u.known), maxMeasured)
	u.mu.Unlock()

	again := w.quota(t)
	defer again.Close()

	require.False(t, again.takes(1))
}

// Everything that makes an entry asks, and what is refused leaves nothing behind.
func TestQuota_everyWriterAsks(t *testing.T) {
	for name, c := range map[string]struct {
		limits func(used diskspace.Usage) Limits
		code   string
	}{
		"inodes": {func(used diskspace.Usage) Limits { return Limits{Inodes: used.Inodes} }, CodeNoSpace},
		"bytes":  {func(used diskspace.Usage) Limits { return Limits{Bytes: used.Bytes + 10} }, CodeNoSpace},
		"reserve": {func(diskspace.Usage) Limits {
			return Limits{Reserve: diskspace.Reserve{Bytes: 1 << 60}}
		}, CodeDiskFull},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			require.NoError(t, w.MkdirAll("dir"))
			w.put(t, "dir/file", strings.Repeat("x", 1000))
			log, err := w.Append(t.Context(), "log")
			require.NoError(t, err)

			defer log.Close()

			used, err := diskspace.Measure(t.Context(), w.host, diskspace.Usage{})
			require.NoError(t, err)

			w.store.limits = c.limits(used)

			content := strings.Repeat("y", 100)

			for writer, write := range map[string]func() error{
				"write": func() error {
					_, err := w.WriteFile(t.Context(), "new", strings.NewReader(content), WriteOptions{})
					return err
				},
				"empty file": func() error {
					_, err := w.WriteFile(t.Context(), "new", strings.NewReader(""), WriteOptions{})
					return err
				},
				"directory": func() error { return w.MkdirAll("other") },
				"parents": func() error {
					_, err := w.WriteFile(t.Context(), "a/b/c", strings.NewReader(content), WriteOptions{Parents: true})
					return err
				},
				"link":     func() error { return w.Symlink("file", "dir/link") },
				"share":    func() error { _, err := w.LinkTo("dir/file", "dir", "share"); return err },
				"copy":     func() error { _, err := w.Copy(t.Context(), "dir/file", "", CopyOptions{}); return err },
				"copy dir": func() error { _, err := w.Copy(t.Context(), "dir", "", CopyOptions{}); return err },
				"append":   func() error { _, err := w.Append(t.Context(), "new log"); return err },
				"staging": func() error {
					q := w.quota(t)
					defer q.Close()

					s, err := w.Stage(t.Context(), q)
					require.NoError(t, err)

					defer s.Close()

					_, err = s.Add(t.Context(), strings.NewReader(content), 1000)

					return err
				},
			} {
				err := write()
				require.True(t, domain.HasCode(err, c.code), "%s: %v", writer, err)
				after, err := diskspace.Measure(t.Context(), w.host, diskspace.Usage{})
				require.NoError(t, err)
				require.Equal(t, used, after, writer)
			}

			if name != "inodes" {
				_, err = log.Write([]byte(content))
				require.True(t, domain.HasCode(err, c.code), "%v", err)
			}

			// What a file has already may be replaced, by as much, when only the workspace is full.
			_, err = w.WriteFile(t.Context(), "dir/file", strings.NewReader(strings.Repeat("z", 1000)), WriteOptions{})
			if c.code == CodeNoSpace {
				require.NoError(t, err)
			} else {
				require.True(t, domain.HasCode(err, c.code), "both contents are on the disk for a moment: %v", err)
			}

			left, err := os.ReadDir(filepath.Join(w.store.root, stagingDir))
			require.NoError(t, err)
			require.Empty(t, left, "nothing half written stays")
		})
	}
}

func TestQuota_growingFileStopsAtTheLimit(t *testing.T) {
	w := open(t)
	log, err := w.Append(t.Context(), "log")
	require.NoError(t, err)

	defer log.Close()

	w.room(t, 1<<20).Close()

	line := make([]byte, 8<<10)
	for err == nil {
		_, err = log.Write(line)
	}

	require.True(t, domain.HasCode(err, CodeNoSpace), "%v", err)
	used, err := diskspace.Measure(t.Context(), w.host, diskspace.Usage{})
	require.NoError(t, err)
	require.LessOrEqual(t, used.Bytes, w.store.limits.Bytes)
	require.Greater(t, used.Bytes, int64(900<<10))
}

// A sparse file takes nothing, so that replacing it credits nothing.
func TestQuota_sparseFileGivesNoCredit(t *testing.T) {
	w := open(t)
	w.put(t, "sparse", "")
	require.NoError(t, os.Truncate(filepath.Join(w.host, "sparse"), 1<<20))
	w.room(t, 64<<10).Close()

	_, err := w.WriteFile(t.Context(), "sparse", strings.NewReader(strings.Repeat("x", 1<<20)), WriteOptions{})
	require.True(t, domain.HasCode(err, CodeNoSpace), "%v", err)

	used, err := diskspace.Measure(t.Context(), w.host, diskspace.Usage{})
	require.NoError(t, err)
	require.LessOrEqual(t, used.Bytes, w.store.limits.Bytes)
}
