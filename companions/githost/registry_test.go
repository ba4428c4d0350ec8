package githost_test

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/companions/credentials"
	"everloop/companions/registry"
	"everloop/internal/testkit"
)

// newRegistry returns a skill registry on real engines.
func newRegistry(t *testing.T, agent string) string {
	t.Helper()
	bucket := testkit.Objects(t)
	service, err := registry.Open(t.Context(), registry.Config{
		DatabaseURL: testkit.Postgres(t), Credentials: credentials.New(agent, ""),
		Packages: registry.Bucket{
			Endpoint: bucket.Endpoint, Name: bucket.Name, AccessKey: bucket.AccessKey, SecretKey: bucket.SecretKey,
		},
	})
	require.NoError(t, err)
	t.Cleanup(service.Close)
	server := httptest.NewServer(service.Handler())
	t.Cleanup(server.Close)

	return server.URL
}
