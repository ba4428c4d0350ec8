package skillregistry_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/skillregistry"
)

func TestClient_followsNoRedirect(t *testing.T) {
	t.Parallel()

	asked := make(chan string, 1)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path }))
	t.Cleanup(elsewhere.Close)

	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(registry.Close)

	_, err := skillregistry.New(registry.URL).Search(t.Context(), "tea", 1)
	require.Equal(t, domain.Unavailable, domain.AsError(err).Kind)
	require.ErrorContains(t, err, "307")
	require.Empty(t, asked)
}

// A name such as .. does not lead to what else the registry has.
func TestClient_asksForNoOtherPath(t *testing.T) {
	t.Parallel()

	asked := make(chan string, 8)
	registry := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path }))
	t.Cleanup(registry.Close)

	client := skillregistry.New(registry.URL)

	for _, name := range []string{".", ".."} {
		_, err := client.Resource(t.Context(), name)
		require.Equal(t, domain.NotFound, domain.AsError(err).Kind)
		_, err = client.Template(t.Context(), "report", name, "pdf")
		require.Equal(t, domain.NotFound, domain.AsError(err).Kind)
		_, err = client.Version(t.Context(), "acme", "tea", name)
		require.Equal(t, domain.NotFound, domain.AsError(err).Kind)
	}

	require.Empty(t, asked)
}
