package testkit

import "testing"

// Temporal returns the address of the Temporal server and the namespace to use. All
// tests share the namespace, because a new one takes seconds to be known: begin task
// queues and workflow ids with [Prefix].
func Temporal(t testing.TB) (address, namespace string) {
	t.Helper()
	found := Engines(t)
	return found.TemporalAddress, found.TemporalNamespace
}
