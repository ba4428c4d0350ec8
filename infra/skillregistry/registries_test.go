package skillregistry_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/skill"
	"everloop/infra/skillregistry"
)

// registryOf has the skill tables of two organisations, in its own version.
func registryOf(t *testing.T, version string) string {
	t.Helper()

	mux := http.NewServeMux()
	mux.HandleFunc("GET /skills", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(
			w,
			`{"items":[{"org":"acme","name":"tables","version":%[1]q},{"org":"partner","name":"tables","version":%[1]q}]}`,
			version,
		)
	})
	mux.HandleFunc("GET /skills/{org}/tables/versions", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"items":[{"version":%q}]}`, version)
	})
	mux.HandleFunc("GET /skills/{org}/tables/versions/{version}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"version":%q}`, version)
	})
	mux.HandleFunc("GET /skills/{org}/tables/download", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, version) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)

	return server.URL
}

// An organisation's skills come from its registry, whatever another one says of them.
func TestRegistries_byOrganisation(t *testing.T) {
	t.Parallel()

	own, partner := registryOf(t, "1.0.0"), registryOf(t, "2.0.0")
	r := skillregistry.NewRegistries(own, map[string]string{"partner": partner, "partner-labs": partner})

	for org, want := range map[string]string{"acme": "1.0.0", "partner": "2.0.0", "partner-labs": "2.0.0"} {
		versions, err := r.Versions(t.Context(), org, "tables")
		require.NoError(t, err)
		require.Equal(t, want, versions[0].Version, org)
		one, err := r.Version(t.Context(), org, "tables", "x")
		require.NoError(t, err)
		require.Equal(t, want, one.Version, org)
		archive, _, err := r.Download(t.Context(), org, "tables", "x")
		require.NoError(t, err)
		require.Equal(t, want, string(archive), org)
	}

	found, err := r.Search(t.Context(), "tables", 10)
	require.NoError(t, err)
	slices.SortFunc(found, func(a, b skillregistry.Listing) int { return strings.Compare(a.Org, b.Org) })
	require.Len(t, found, 2, "each organisation once")
	require.Equal(t, []string{"acme", "1.0.0"}, []string{found[0].Org, found[0].Version})
	require.Equal(t, []string{"partner", "2.0.0"}, []string{found[1].Org, found[1].Version})
}

// A registry that does not answer hides nothing of the others, and is no reason to ask them
// for its organisations.
func TestRegistries_oneIsAway(t *testing.T) {
	t.Parallel()

	r := skillregistry.NewRegistries(registryOf(t, "1.0.0"), map[string]string{"partner": "http://127.0.0.1:1"})
	found, err := r.Search(t.Context(), "tables", 10)
	require.Equal(t, domain.Unavailable, domain.AsError(err).Kind)
	require.Len(t, found, 1)
	require.Equal(t, "acme", found[0].Org)
	_, err = r.Versions(t.Context(), "partner", "tables")
	require.Equal(t, domain.Unavailable, domain.AsError(err).Kind)

	alone := skillregistry.NewRegistries("", map[string]string{"partner": registryOf(t, "2.0.0")})
	_, err = alone.Versions(t.Context(), "acme", "tables")
	require.True(t, domain.HasCode(err, skill.CodeNoRegistry), err)
	require.Nil(t, skillregistry.NewRegistries("", nil))
}
