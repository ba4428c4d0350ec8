//go:build linux

package workspace

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// One name has one holder, over the stores of several processes, and a process that
// holds two names at once.
func TestOneHolderOfAName(t *testing.T) {
	w := open(t)
	dir := int(w.root.Fd())
	other := newLocks(w.store.root) // shares no mutex with the first

	var (
		holders atomic.Int32
		wg      sync.WaitGroup
	)

	for i := range 6 {
		l := w.store.locks
		if i%2 == 1 {
			l = other
		}

		wg.Go(func() {
			for n := range 100 {
				second := place{dir, fmt.Sprint(i, n)}

				places := []place{{dir, "name"}, second, second}
				if n%2 == 0 {
					places[0], places[1] = places[1], places[0]
				}

				release, err := l.hold(places...)
				if err != nil {
					t.Error(err)
					return
				}

				if holders.Add(1) != 1 {
					t.Error("two hold it")
				}

				runtime.Gosched()
				holders.Add(-1)
				release()
			}
		})
	}

	wg.Wait()
	require.Zero(t, holders.Load())
}
