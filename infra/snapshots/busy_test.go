//go:build linux

package snapshots

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"everloop/infra/snapshots/beneath"
	"everloop/infra/snapshots/manifest"
)

func TestCapture_concurrentWriter(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(t, "quiet", "1")
	in := b.in("")
	in.Busy = true
	s, err := b.store.Capture(t.Context(), in)
	require.NoError(t, err)
	require.False(t, s.Complete)

	known := b.store.session(b.session).last()
	require.False(t, known.at("quiet").Trusted, "what a memory mapping wrote may show later")

	stop := make(chan struct{})

	var writer sync.WaitGroup
	writer.Go(func() {
		f, err := os.OpenFile(filepath.Join(b.root, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return
		}
		defer f.Close()

		for {
			select {
			case <-stop:
				return
			default:
				_, _ = f.WriteString("line\n")
			}
		}
	})
	require.Eventually(t, func() bool {
		s, err = b.store.Capture(t.Context(), b.in(""))
		return err == nil && !s.Complete
	}, time.Minute, time.Millisecond, "a file changed each time that it was looked at")
	close(stop)
	writer.Wait()
	require.Equal(t, 2, s.Files)
	r, info, err := b.store.Open(t.Context(), s.ID, "log")
	require.NoError(t, err)
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	require.EqualValues(t, info.Size, len(data))
	require.Empty(t, strings.ReplaceAll(string(data[:len(data)/5*5]), "line\n", ""))
	require.True(t, b.capture(t, s.ID).Complete, "it is quiet again")
}

// appender is a sink that changes the file whenever it was read.
type appender struct {
	path  string
	reads int
}

func (a *appender) small(hash, []byte) error {
	a.reads++

	f, err := os.OpenFile(a.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}

	_, err = f.WriteString("more")

	return errors.Join(err, f.Close())
}

func (a *appender) chunk(hash, []byte) error { return a.small(hash{}, nil) }

func TestCapture_fileThatKeepsChanging(t *testing.T) {
	t.Parallel()

	b := newBench(t)
	for p, size := range map[string]int{"small": 4, "large": smallLimit + 4} {
		b.put(t, p, strings.Repeat("m", size))
		root, err := unix.Open(b.root, unix.O_PATH, 0)
		require.NoError(t, err)

		a := &appender{path: filepath.Join(b.root, p)}
		r := &reader{ctx: t.Context(), sink: a, quiet: time.Now().Add(time.Hour).UnixNano()}
		f := found{Entry: manifest.Entry{Path: p, Kind: manifest.File}}
		require.NoError(t, r.read(root, p, &f))
		require.NoError(t, unix.Close(root))
		require.True(t, r.unstable)
		require.False(t, f.Trusted)
		require.Equal(t, readTries, a.reads)
		require.EqualValues(t, size+4*(readTries-1), f.Identity.Size, "as it was at the last try")
	}
}

// A file that is renamed from where the walk has not been to where it was would
// be missed.
func TestCapture_treeChangesDuringWalk(t *testing.T) {
	t.Parallel()

	b := newBench(t)
	for what, change := range map[string]func(){
		"renamed": func() { _ = os.Rename(filepath.Join(b.root, "from/file"), filepath.Join(b.root, "to/file")) },
		"removed": func() { _ = os.RemoveAll(filepath.Join(b.root, "from")) },
		"written": func() { b.put(t, "read", "other") },
		"nothing": func() {},
	} {
		b.clear(t)
		b.put(t, "from/file", "x")
		b.mkdir(t, "to")
		b.put(t, "read", "x")
		root, err := beneath.OpenRoot(b.root)
		require.NoError(t, err)
		w := &walker{ctx: t.Context(), root: root, most: 1000, content: func(int, string, *found) error { return nil }}
		require.NoError(t, w.run(2))
		change()

		moved, err := w.moved(2)
		require.NoError(t, err)
		require.Equal(t, what != "nothing", moved, what)
		require.NoError(t, unix.Close(root))
	}
}

// Whatever grows, shrinks and comes and goes: a capture ends, and what it made
// can be read.
func TestCaptureBesideABusyTree(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	stop := make(chan struct{})

	var writers sync.WaitGroup
	for n := range 3 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}

				dir := filepath.Join(b.root, "w"+strconv.Itoa(n))
				_ = os.MkdirAll(filepath.Join(dir, "sub"), 0o755)
				size := []int{0, 10, 5 << 20}[i%3]
				_ = os.WriteFile(filepath.Join(dir, "sub", strconv.Itoa(i%5)), make([]byte, size, size+1), 0o644)

				_ = os.Truncate(filepath.Join(dir, "sub", strconv.Itoa((i+2)%5)), int64(i%3))
				if i%7 == 0 {
					_ = os.RemoveAll(filepath.Join(dir, "sub"))
				}
			}
		})
	}

	deadline := time.Now().Add(3 * time.Second)
	g := &gate{Objects: b.objects}
	b.store = b.fresh(t, g)

	var captures errgroup.Group
	for range 2 {
		captures.Go(func() error {
			previous := ""
			for i := 0; time.Now().Before(deadline); i++ {
				in := b.in(previous)
				in.UID, in.Busy = 0, i%2 == 0

				s, err := b.store.Capture(t.Context(), in)
				if err != nil {
					return err
				}

				previous = s.ID
			}

			return nil
		})
	}

	err := captures.Wait()

	close(stop)
	writers.Wait()
	require.NoError(t, err)
	checkWhole(t, b, g.put)
}

// A large file that is to give some of its chunks is changed at the last moment.
func TestRestore_localChunkChanged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	content := strings.Repeat("0123456789abcdef", 2*chunkSize/16)
	b.put(t, "big", content)
	id := b.capture(t, "").ID
	b.put(t, "big", content+"more")
	target, err := b.store.load(t.Context(), id)
	require.NoError(t, err)
	r, done := b.prepared(t, target)
	require.Len(t, r.local["big"], 2)
	require.Empty(t, r.contents.chunks)
	b.put(t, "big", "X"+content)
	require.NoError(t, r.apply())
	done()
	require.Len(t, r.done.Skipped, 1)
	require.Equal(t, "X"+content, b.get(t, "big"))
	require.Empty(t, b.restore(t, id).Skipped)
	require.True(t, content == b.get(t, "big"))
}
