//go:build linux

package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/internal/sharedfs"
	"everloop/internal/sharedfs/sharedfstest"
)

// machines opens one store as two machines have it.
func machines(t *testing.T) [2]*Store {
	one, other := sharedfstest.Machines(t)
	return [2]*Store{New(one), New(other)}
}

// Both make the workspace of a new session: they get the same one, and neither loses
// what it writes first.
func TestStore_Open_twoMachinesAtOnce(t *testing.T) {
	stores := machines(t)

	for round := range 30 {
		session := "s" + strconv.Itoa(round)

		var all sync.WaitGroup
		for i, store := range stores {
			all.Go(func() {
				w, err := store.Open(t.Context(), domain.SessionID(session), testUID)
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = w.Close() }()

				if _, err := w.WriteFile(t.Context(), fmt.Sprint(i), strings.NewReader("x"), WriteOptions{}); err != nil {
					t.Error(err)
				}
			})
		}

		all.Wait()

		w, err := stores[0].Open(t.Context(), domain.SessionID(session), testUID)
		require.NoError(t, err)
		require.Equal(t, "x", w.get(t, "0"))
		require.Equal(t, "x", w.get(t, "1"), "round %d", round)
		require.NoError(t, w.Close())
	}
}

// Both use a store for the first time at once: they lock one file and write by one
// staging directory, so that of two that make the same file one wins.
func TestStore_firstUse_AcrossMachines(t *testing.T) {
	one, other := sharedfstest.Machines(t)

	for round := range 60 {
		name := strconv.Itoa(round)
		require.NoError(t, os.Mkdir(filepath.Join(one, name), 0o711))

		var (
			won, lost atomic.Int32
			all       sync.WaitGroup
		)
		for _, root := range []string{filepath.Join(one, name), filepath.Join(other, name)} {
			all.Go(func() {
				w, err := New(root).Open(t.Context(), "s", testUID)
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = w.Close() }()

				_, err = w.WriteFile(t.Context(), "f", strings.NewReader("x"), WriteOptions{CreateOnly: true})
				switch {
				case err == nil:
					won.Add(1)
				case domain.HasCode(err, CodeExists):
					lost.Add(1)
				default:
					t.Error(err)
				}
			})
		}

		all.Wait()
		require.EqualValues(t, 1, won.Load(), "round %d", round)
		require.EqualValues(t, 1, lost.Load(), "round %d", round)
	}
}

// Each of two machines counts one file up, only over the version that it read.
func TestWorkspace_WriteFile_conditionAcrossMachines(t *testing.T) {
	var open [2]*Workspace

	for i, store := range machines(t) {
		w, err := store.Open(t.Context(), "s", testUID)
		require.NoError(t, err)
		t.Cleanup(func() { _ = w.Close() })

		open[i] = w
	}

	open[0].put(t, "n", "0")

	const each = 40

	var all sync.WaitGroup
	for _, w := range open {
		all.Go(func() {
			for done, tries := 0, 0; done < each; tries++ {
				if tries == 100*each {
					t.Error("too many conflicts")
					return
				}

				data, info, err := w.ReadFile("n", 100)
				if err != nil {
					continue // it was replaced at the same time
				}

				n, err := strconv.Atoi(string(data))
				if err != nil {
					t.Errorf("%q: %v", data, err)
					return
				}

				_, err = w.WriteFile(context.Background(), "n", strings.NewReader(strconv.Itoa(n+1)), WriteOptions{IfMatch: info.ETag()})
				switch {
				case err == nil:
					done++
				case !domain.HasCode(err, CodeStale):
					t.Error(err)
					return
				}
			}
		})
	}

	all.Wait()
	require.Equal(t, strconv.Itoa(2*each), open[0].get(t, "n"))
}

// The name of a file that another machine has just replaced answers as stale: the file
// is written all the same, and one that stays so is a conflict, not a fault.
func TestWorkspace_WriteFile_staleName(t *testing.T) {
	w, err := New(t.TempDir()).Open(t.Context(), "s", testUID)
	require.NoError(t, err)

	defer func() { _ = w.Close() }()

	w.put(t, "n", "0")
	_, info, err := w.ReadFile("n", 100)
	require.NoError(t, err)

	stale := 3
	restore := sharedfs.Simulate(sharedfs.Simulation{
		NoRenameFlags: true, CachesAttributes: true,
		Stale: func(name string) bool { stale--; return name == "n" && stale >= 0 },
	})
	_, err = w.WriteFile(t.Context(), "n", strings.NewReader("1"), WriteOptions{IfMatch: info.ETag()})

	restore()
	require.NoError(t, err)
	require.Equal(t, "1", w.get(t, "n"))

	defer sharedfs.Simulate(sharedfs.Simulation{Stale: func(name string) bool { return name == "n" }})()

	_, err = w.WriteFile(t.Context(), "n", strings.NewReader("2"), WriteOptions{})
	require.True(t, domain.HasCode(err, CodeStale), "%v", err)
}

// A command writes to a file in place, on another machine: the content that is read next
// is that of the ETag, although this machine keeps attributes and pages for ten minutes.
func TestWorkspace_ReadFile_writtenInPlaceAcrossMachines(t *testing.T) {
	stores := machines(t)
	writer, err := stores[0].Open(t.Context(), "s", testUID)
	require.NoError(t, err)

	defer func() { _ = writer.Close() }()

	reader, err := stores[1].Open(t.Context(), "s", testUID)
	require.NoError(t, err)

	defer func() { _ = reader.Close() }()

	writer.put(t, "f", "one")

	seen := map[string]bool{}

	file := filepath.Join(writer.HostPath(), "f")
	for i, content := range []string{"one", "two", "six"} { // of equal size
		require.NoError(t, os.WriteFile(file, []byte(content), 0o644))

		at := time.Unix(1e9+int64(i), 0) // clocks of file systems tick slowly
		require.NoError(t, os.Chtimes(file, at, at))

		data, info, err := reader.ReadFile("f", 100)
		require.NoError(t, err)
		require.Equal(t, content, string(data))
		require.False(t, seen[info.ETag()])
		seen[info.ETag()] = true
	}
}

// Of two machines that make the same file one wins.
func TestWorkspace_WriteFile_createOnlyAcrossMachines(t *testing.T) {
	stores := machines(t)

	for round := range 30 {
		name := strconv.Itoa(round)

		var (
			won, lost atomic.Int32
			all       sync.WaitGroup
		)

		for _, store := range stores {
			w, err := store.Open(t.Context(), "s", testUID)
			require.NoError(t, err)
			all.Go(func() {
				defer func() { _ = w.Close() }()

				_, err := w.WriteFile(t.Context(), name, strings.NewReader("x"), WriteOptions{CreateOnly: true})
				switch fault := (*domain.Error)(nil); {
				case err == nil:
					won.Add(1)
				case errors.As(err, &fault) && fault.Code == CodeExists:
					lost.Add(1)
				default:
					t.Error(err)
				}
			})
		}

		all.Wait()
		require.EqualValues(t, 1, won.Load())
		require.EqualValues(t, 1, lost.Load())
	}
}
