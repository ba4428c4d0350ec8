package clients

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadCookie(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		sent  map[string]string
		https bool
		want  string
	}{
		"plain":                     {map[string]string{"s": "plain"}, false, "plain"},
		"prefix":                    {map[string]string{"__Host-s": "host"}, true, "host"},
		"planted by a subdomain":    {map[string]string{"s": "plain"}, true, ""},
		"both":                      {map[string]string{"s": "plain", "__Host-s": "host"}, true, "host"},
		"proxy that is not trusted": {map[string]string{"__Host-s": "host"}, false, "host"},
		"both, proxy not trusted":   {map[string]string{"s": "plain", "__Host-s": "host"}, false, "host"},
		"prefix of another one":     {map[string]string{"__Secure-s": "x"}, true, ""},
		"no cookie":                 {nil, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, ReadCookie("s", c.https, func(name string) string { return c.sent[name] }))
		})
	}
}

func TestProxies_HTTPS(t *testing.T) {
	t.Parallel()

	proxies, err := ParseProxies([]string{"10.0.0.0/8"})
	require.NoError(t, err)

	for peer, want := range map[string]bool{"10.1.2.3:9": true, "[::ffff:10.1.2.3]:9": true, "192.0.2.1:9": false, "@": false} {
		r := httptest.NewRequest("GET", "http://x/", nil)
		r.RemoteAddr = peer
		require.False(t, proxies.HTTPS(r), peer)
		r.Header.Set("X-Forwarded-Proto", "https")
		require.Equal(t, want, proxies.HTTPS(r), peer)
	}

	require.True(t, Proxies(nil).HTTPS(httptest.NewRequest("GET", "https://x/", nil)))
}
