package external_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"everloop/domain"
	"everloop/infra/external"
)

// A server that is not there fails its probe with a hint, and no secret is repeated.
func TestProbes_serversThatAreNotThere(t *testing.T) {
	t.Parallel()

	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	addr := gone.Addr().String()
	require.NoError(t, gone.Close())

	server, clock := external.ProbePostgres(t.Context(), "postgres://user:hunter2@"+addr+"/db")
	require.Nil(t, clock)

	unreadable, _ := external.ProbePostgres(t.Context(), "postgres://hunter2:::")
	for name, result := range map[string]domain.CheckResult{
		"PostgreSQL":     server,
		"unreadable URL": unreadable,
		"NATS":           external.ProbeNATS(t.Context(), "nats://user:hunter2@"+addr, nil),
		"Temporal":       external.ProbeTemporal(t.Context(), client.Options{HostPort: addr, Namespace: "n"}, nil),
		"S3":             external.S3{Endpoint: addr, Bucket: "b", AccessKey: "a", SecretKey: "hunter2"}.Probe(t.Context()),
	} {
		require.Equal(t, domain.CheckFail, result.Status, name)
		require.NotEmpty(t, result.Hint, name)
		require.NotContains(t, result.Message+result.Hint, "hunter2", name)
	}
}
