package app

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// What a service is asked for, and which answers say that it is healthy.
func TestCheckAddress(t *testing.T) {
	t.Parallel()

	statuses := []int{
		http.StatusOK, http.StatusFound, http.StatusUnauthorized, http.StatusNotFound, http.StatusInternalServerError,
		http.StatusServiceUnavailable,
	}

	for name, c := range map[string]struct {
		ask    func(ctx context.Context, address string) error
		path   string
		passes []int
	}{
		"companion":   {healthy, "/api/health", statuses[:1]},
		"git hosting": {serves, "/", statuses[:1]},
		"anything":    {answers, "/", statuses[:4]},
	} {
		for _, status := range statuses {
			server, asked := answering(t, status)
			result := checkAddress("git", "Git hosting", "GIT_URL", server+"/", c.ask).Run(t.Context())
			require.Equal(t, c.path, <-asked)
			require.Equal(t, slices.Contains(c.passes, status), result.Status == domain.CheckOK, "%s: %d", name, status)
		}
	}

	skipped := checkAddress("registry", "Skill registry", "REGISTRY_URL", "", healthy).Run(t.Context())
	require.Equal(t, domain.CheckSkipped, skipped.Status)
}

func TestGIS_isHealthyWhereItHasAMap(t *testing.T) {
	t.Parallel()

	for status, healthy := range map[int]bool{
		http.StatusOK: true, http.StatusFound: true, http.StatusNotFound: false, http.StatusInternalServerError: false,
	} {
		server, asked := answering(t, status)

		b := &backend{}
		b.settings.GISMapURL = server + "/map"
		require.Equal(t, healthy, b.gis(t.Context()).Healthy, status)
		require.Equal(t, "/map", <-asked)
	}
}

// answering returns a server that gives each request this status, and the paths that it is
// asked for.
func answering(t *testing.T, status int) (address string, asked <-chan string) {
	t.Helper()

	paths := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths <- r.URL.Path

		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)

	return server.URL, paths
}
