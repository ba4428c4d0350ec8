package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"everloop/internal/limit"
)

// operator is the name of the key that opens the management interface.
const operator = "operator"

// keysApart rejects a settings file that contains the operator's key: its owner would be
// ambiguous.
func (s Settings) keysApart(operatorKey string) error {
	for i, k := range s.Keys {
		if subtle.ConstantTimeCompare([]byte(k.Key), []byte(operatorKey)) == 1 {
			return fmt.Errorf("keys[%d].key must not be the operator's key", i)
		}
	}

	return nil
}

// caller is the owner of a key.
type caller struct {
	name   string
	hash   [sha256.Size]byte
	models []string // empty: all
	most   int      // max concurrent requests; 0: unlimited

	running limit.Keyed[struct{}]
}

func newCaller(k Key) *caller {
	return &caller{name: k.Name, hash: sha256.Sum256([]byte(k.Key)), models: k.Models, most: k.MaxConcurrency}
}

// permits reports whether the key permits a model, by the requested name or the model's own.
func (c *caller) permits(names ...string) bool {
	return len(c.models) == 0 || slices.ContainsFunc(names, func(name string) bool { return slices.Contains(c.models, name) })
}

// accepts reports whether the table still contains the key of a caller, with a permission for a
// model.
func (t *table) accepts(by *caller, names ...string) bool {
	return slices.ContainsFunc(t.callers, func(c *caller) bool { return c.hash == by.hash && c.permits(names...) })
}

// enter counts a concurrent request of the key until leave is called. ok is false if the key
// has reached its maximum.
func (c *caller) enter() (leave func(), ok bool) {
	leave, err := c.running.Try(limit.Bound[struct{}]{Max: c.most})
	return leave, err == nil
}

// find returns the caller of a key. It compares all keys, by hashes and in constant time, so
// that the duration reveals nothing of any key.
func find(callers []*caller, key string) *caller {
	hash := sha256.Sum256([]byte(key))

	var found *caller

	for _, c := range callers {
		if subtle.ConstantTimeCompare(hash[:], c.hash[:]) == 1 && found == nil {
			found = c
		}
	}

	return found
}

// credential returns the key of a request; clients of Anthropic's interface send it as x-api-key.
func credential(r *http.Request) string {
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(key)
	}

	return strings.TrimSpace(r.Header.Get("X-Api-Key"))
}
