package durable

import (
	"crypto/rand"
	"sync"
	"time"
)

// keepNonce is the lifetime of the nonce of a commit without a response.
const keepNonce = 15 * time.Minute

// Nonces contains the nonces of commits that start work, by the key of the work. When the
// response to a commit is lost, the next attempt uses the same nonce. If the database already
// contains that nonce, the earlier commit of this process succeeded but the work was not done.
// The zero value is ready to use.
type Nonces[K comparable] struct {
	mu   sync.Mutex
	kept map[K]string
}

// Use calls commit with the nonce of each key: the nonce of the last attempt without a response,
// or a new one.
func (n *Nonces[K]) Use(keys []K, commit func(nonces []string) error) error {
	used, created := n.take(keys)
	err := commit(used)
	forget := func() {
		for i, key := range keys {
			n.forget(key, used[i])
		}
	}

	switch {
	case err == nil:
		forget()
	case created:
		time.AfterFunc(keepNonce, forget)
	}

	return err
}

// take returns the nonce of each key. created reports whether any of them is new.
func (n *Nonces[K]) take(keys []K) (used []string, created bool) {
	n.mu.Lock()
	defer n.mu.Unlock()

	if n.kept == nil {
		n.kept = map[K]string{}
	}

	for _, key := range keys {
		nonce, kept := n.kept[key]
		if !kept {
			created = true
			nonce = rand.Text()
			n.kept[key] = nonce
		}

		used = append(used, nonce)
	}

	return used, created
}

func (n *Nonces[K]) forget(key K, nonce string) {
	n.mu.Lock()
	defer n.mu.Unlock()

	if n.kept[key] == nonce {
		delete(n.kept, key)
	}
}
