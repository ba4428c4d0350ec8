package registry

import "sync"

// entrance bounds the uploads at once, and leaves a part of them to others than any one
// caller. The zero value is ready.
type entrance struct {
	mu  sync.Mutex
	all int
	own map[string]int
}

// enter counts an upload of a caller in, if there is a place for it.
func (e *entrance) enter(caller string) (leave func(), ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()

	if e.all >= maxConcurrentUploads || e.own[caller] >= ownUploads {
		return nil, false
	}

	if e.own == nil {
		e.own = map[string]int{}
	}

	e.all++
	e.own[caller]++

	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()

		e.all--
		if e.own[caller]--; e.own[caller] == 0 {
			delete(e.own, caller)
		}
	}, true
}
