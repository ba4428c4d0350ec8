package mcp

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestServersOfUsersMayNotBeInside(t *testing.T) {
	t.Parallel()
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was reached") }))
	t.Cleanup(inside.Close)
	w := newWorld(t)
	w.add(domain.MCPServer{Name: "inside", Transport: domain.MCPHTTP, URL: inside.URL})
	w.add(domain.MCPServer{Name: "byname", Transport: domain.MCPHTTP, URL: strings.Replace(inside.URL, "127.0.0.1", "localhost", 1)})
	w.offered()
	for _, name := range []string{"inside", "byname"} {
		require.Eventually(t, func() bool { return w.records.state(name).Status == domain.MCPFailed }, soon, tick)
		require.Contains(t, w.records.state(name).Error, "may not be on this network")
	}
	for address, public := range map[string]bool{
		"1.1.1.1:443": true, "[2606:4700::1111]:443": true, "127.0.0.1:1": false, "10.0.0.1:1": false, "172.16.0.1:1": false, "192.168.1.1:1": false,
		"169.254.169.254:80": false, "100.64.0.1:1": false, "0.0.0.0:1": false, "224.0.0.1:1": false, "255.255.255.255:1": false, "[::1]:1": false,
		"[::]:1": false, "[fe80::1%25lo]:1": false, "[fd00::1]:1": false, "[::ffff:127.0.0.1]:1": false, "[64:ff9b::7f00:1]:1": false, "x:1": false,
	} {
		require.Equal(t, public, onlyPublic(strings.Replace(address, "%25", "%", 1)) == nil, address)
	}
	// What an operator allows by name is reached all the same.
	host := strings.TrimPrefix(inside.URL, "http://")
	answer := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusTeapot) }))
	t.Cleanup(answer.Close)
	guard := NewGuard([]string{strings.TrimPrefix(answer.URL, "http://")})
	request, _ := http.NewRequest(http.MethodGet, answer.URL, nil)
	got, err := guard.Transport(false).RoundTrip(request)
	require.NoError(t, err)
	require.NoError(t, got.Body.Close())
	request, _ = http.NewRequest(http.MethodGet, "http://"+host, nil)
	_, err = guard.Transport(false).RoundTrip(request)
	require.ErrorContains(t, err, "may not be on this network")
}
