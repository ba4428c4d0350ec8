package testkit

import (
	"testing"

	"go.temporal.io/sdk/client"
)

// Temporal returns the options of a client of the Temporal server. All tests share the namespace,
// because a new one takes seconds to become usable: start task queues and workflow ids with
// [Prefix].
func Temporal(t testing.TB) client.Options {
	t.Helper()
	found := Engines(t)

	return client.Options{
		HostPort: found.Get(t, "temporal_address"), Namespace: found.Get(t, "temporal_namespace"),
		Credentials:       client.NewAPIKeyStaticCredentials(found.Get(t, "temporal_api_key")),
		ConnectionOptions: client.ConnectionOptions{TLSDisabled: true},
	}
}
