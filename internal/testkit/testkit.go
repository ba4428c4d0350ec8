// Package testkit provides real engines to tests: PostgreSQL, Temporal, NATS and an S3 store. It
// is imported by tests only. It must not import the engines themselves (infra/embedded, the
// Temporal server): linking them adds 200 MB to every test binary, so it starts the program
// "everloop engines" and connects.
//
// Each helper returns a resource private to the test: a database, a bucket, a prefix. A test of a
// package that testkit imports (infra/postgres) must be in the external test package, or the
// imports form a cycle.
package testkit

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"testing"
)

// Prefix returns a unique name of the test's name and random digits: lower-case letters, digits
// and hyphens, at most 40 bytes, valid for stream names, task queues, workflow ids and buckets.
// Store the result: every call differs.
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
