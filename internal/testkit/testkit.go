// Package testkit gives tests real engines: PostgreSQL, Temporal, NATS and an S3
// store. It is imported by tests only. It must not import the engines themselves
// (infra/embedded, the Temporal server): linking them costs every test binary
// 200 MB, so it starts the program "everloop engines" and connects.
//
// Each helper gives its test something of its own: a database, a bucket, a prefix.
// A test of a package that testkit imports (infra/postgres) must be in the external
// test package, or the imports form a cycle.
package testkit

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"testing"
)

// Prefix returns a name that no other call returns, made of the test's name and
// random digits: lower-case letters, digits and hyphens, at most 40 bytes, fit for
// stream names, task queues, workflow ids and buckets. Keep it: every call differs.
func Prefix(t testing.TB) string {
	t.Helper()
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		default:
			return '-'
		}
	}, t.Name())
	name = strings.Trim(name[:min(len(name), 27)], "-")

	return name + "-" + randomHex(6)
}

// randomHex returns n random bytes as 2n hexadecimal digits.
func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails

	return hex.EncodeToString(b)
}
