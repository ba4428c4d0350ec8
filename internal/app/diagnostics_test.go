package app

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// A service that answers with a fault of its own is not healthy; one that refuses to say
// anything is.
func TestCheckAddress(t *testing.T) {
	t.Parallel()

	for status, want := range map[int]domain.CheckStatus{
		http.StatusOK: domain.CheckOK, http.StatusNotFound: domain.CheckOK, http.StatusUnauthorized: domain.CheckOK,
		http.StatusFound: domain.CheckOK, http.StatusInternalServerError: domain.CheckFail, http.StatusServiceUnavailable: domain.CheckFail,
	} {
		asked := make(chan string, 2)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked <- r.URL.Path

			w.WriteHeader(status)
		}))
		t.Cleanup(server.Close)

		result := checkAddress("registry", "Skill registry", "REGISTRY_URL", server.URL+"/", healthPath).Run(t.Context())
		require.Equal(t, want, result.Status, status)
		require.Equal(t, "/api/health", <-asked)

		b := &backend{}
		b.settings.GISMapURL = server.URL + "/map"
		require.Equal(t, want == domain.CheckOK, b.gis(t.Context()).Healthy, status)
		require.Equal(t, "/map", <-asked)
	}

	skipped := checkAddress("registry", "Skill registry", "REGISTRY_URL", "", healthPath).Run(t.Context())
	require.Equal(t, domain.CheckSkipped, skipped.Status)
}
