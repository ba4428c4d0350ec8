package testkit

import "testing"

// Events returns the URL of the NATS server with JetStream, including the token. All tests share
// it: start stream names and subjects with [Prefix].
func Events(t testing.TB) string {
	t.Helper()
	return Engines(t).Get(t, "nats_url")
}
