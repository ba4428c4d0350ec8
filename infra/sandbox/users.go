//go:build linux

package sandbox

import (
	"errors"
	"sync"
)

// maxPrivate is how many private commands can run at once, each as a host user of
// its own: the users just below Config.UserBase, since sessions' users are above it.
const maxPrivate = 1000

// users allocates the host users of private commands. A user is allocated again
// only when all processes of its command have ended.
type users struct {
	below int
	mu    sync.Mutex
	taken map[int]bool
	next  int // counts up, so that a user rests for as long as possible
}

var errNoUsers = errors.New("sandbox: too many private commands run at once")

func (u *users) take() (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()

	for range maxPrivate {
		u.next = u.next%maxPrivate + 1

		uid := u.below - u.next
		if !u.taken[uid] {
			if u.taken == nil {
				u.taken = map[int]bool{}
			}

			u.taken[uid] = true

			return uid, nil
		}
	}

	return 0, errNoUsers
}

func (u *users) release(uid int) {
	u.mu.Lock()
	defer u.mu.Unlock()

	delete(u.taken, uid)
}
