package hosts

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestList_Allows(t *testing.T) {
	t.Parallel()

	list := List{"Everloop.example.org", "*.apps.example.org"}
	for host, want := range map[string]bool{
		"127.0.0.1:8020": true, "127.0.0.1": true, "[::1]:8233": true, "[::1]": true, "10.1.2.3:80": true,
		"localhost": true, "localhost:8020": true, "LOCALHOST.:8020": true, "demo.localhost:1": true,
		"api:8020": true, "everloop-api": true, "my_service:1": true,
		"everloop.example.org": true, "everloop.EXAMPLE.org:443": true, "a.apps.example.org": true, "a.b.apps.example.org": true,

		"evil.example": false, "evil.example:8020": false, "": false, ":8020": false, "localhost.evil.example": false,
		"apps.example.org": false, "x.everloop.example.org": false, "evilapps.example.org": false,
		"127.0.0.1.evil.example": false, "127.0.0.1@evil.example": false, "evil.example:8020:127.0.0.1": false, "a/b": false,
		"evil@": false,
	} {
		require.Equal(t, want, list.Allows(host), host)
	}

	require.False(t, List(nil).Allows("everloop.example.org"))
	require.True(t, List{Any}.Allows("evil.example"))
}

func TestList_Check(t *testing.T) {
	t.Parallel()
	require.NoError(t, List{"everloop.example.org", "*.example.org", Any, "api"}.Check())

	for _, entry := range []string{"", "https://example.org", "example.org:443", "example.org/x", "*.", "a.*.org", "**"} {
		require.ErrorContains(t, List{entry}.Check(), "is not a host name", entry)
	}
}
