package activities

import (
	"sync"
	"time"

	"everloop/domain"
)

// keepNonce is how long the nonce of a commit without an answer is kept.
const keepNonce = 15 * time.Minute

// nonces gives commits that begin something a nonce each. When the answer to a
// commit is lost, the next try uses the same nonce, by which the database knows that
// what they hold was started by this process and never carried out.
type nonces[K comparable] struct {
	mu   sync.Mutex
	kept map[K]string
}

// use calls commit with the nonce of the key's last try without an answer, or
// with a new one.
func (n *nonces[K]) use(key K, commit func(nonce string) error) error {
	return n.useAll([]K{key}, func(nonces []string) error { return commit(nonces[0]) })
}

// useAll is use for a commit that begins several things.
func (n *nonces[K]) useAll(keys []K, commit func(nonces []string) error) error {
	used, given := n.give(keys)
	err := commit(used)
	forget := func() {
		for i, key := range keys {
			n.forget(key, used[i])
		}
	}

	switch {
	case err == nil:
		forget()
	case given:
		time.AfterFunc(keepNonce, forget)
	}

	return err
}

// give gives each key its nonce; given reports that some are new.
func (n *nonces[K]) give(keys []K) (used []string, given bool) {
	n.mu.Lock()
	defer n.mu.Unlock()

	if n.kept == nil {
		n.kept = map[K]string{}
	}

	for _, key := range keys {
		nonce, kept := n.kept[key]
		if !kept {
			given = true
			nonce = domain.NewID()
			n.kept[key] = nonce
		}

		used = append(used, nonce)
	}

	return used, given
}

func (n *nonces[K]) forget(key K, nonce string) {
	n.mu.Lock()
	defer n.mu.Unlock()

	if n.kept[key] == nonce {
		delete(n.kept, key)
	}
}
