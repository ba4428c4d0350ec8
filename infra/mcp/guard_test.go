package mcp

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/toolserver"
	"everloop/infra/netguard"
	"everloop/infra/web"
)

func TestGuard_serversOfUsers(t *testing.T) {
	t.Parallel()

	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was reached") }))
	t.Cleanup(inside.Close)
	w := newEnv(t)
	w.add(domain.MCPServer{Name: "inside", Transport: toolserver.HTTP, URL: inside.URL})
	w.add(domain.MCPServer{Name: "byname", Transport: toolserver.HTTP, URL: strings.Replace(inside.URL, "127.0.0.1", "localhost", 1)})
	w.offered()

	for _, name := range []string{"inside", "byname"} {
		require.Eventually(t, func() bool { return w.store.state(name).Status == toolserver.Failed }, soon, tick)
		require.Contains(t, w.store.state(name).Error, "may not be on this network or port")
	}
	// What an operator allows by name is reached all the same.
	host := strings.TrimPrefix(inside.URL, "http://")
	answer := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusTeapot) }))
	t.Cleanup(answer.Close)
	checks, err := netguard.New([]string{strings.TrimPrefix(answer.URL, "http://")}, nil)
	require.NoError(t, err)

	guard := NewGuard(checks)
	request, _ := http.NewRequest(http.MethodGet, answer.URL, nil)
	got, err := guard.Transport(false).RoundTrip(request)
	require.NoError(t, err)
	require.NoError(t, got.Body.Close())

	request, _ = http.NewRequest(http.MethodGet, "http://"+host, nil)
	_, err = guard.Transport(false).RoundTrip(request)
	require.ErrorContains(t, err, "may not be on this network or port")
}

// What WebFetch refuses, tool servers of users may not be on, and the other way
// round. Nothing is sent: a refusal comes before the connection.
func TestGuard_Transport_refusesWhatWebFetchRefuses(t *testing.T) {
	t.Parallel()

	const ownPort = "18020"

	allow := []string{"127.0.0.0/30"} // a network does not allow the service's own ports
	listening := []string{"0.0.0.0:" + ownPort, "0.0.0.0:443"}
	addresses := []string{
		"168.63.129.16:80", "168.63.129.16:32526", "169.254.169.254:80", "100.100.100.200:80", "127.0.0.1:443", "0.0.0.0:443",
		"10.0.0.1:443",
		"172.16.0.1:443", "192.168.1.1:443", "100.64.0.1:443", "192.88.99.1:443", "198.18.0.1:443", "224.0.0.1:443", "255.255.255.255:443",
		"[::1]:443", "[::]:443", "[fd00::1]:443", "[fe80::1]:443", "[::ffff:127.0.0.1]:443", "[64:ff9b::7f00:1]:443", "[2002:7f00:1::]:443",
		"[3fff::1]:443", "[4000::1]:443", // not given out to the public
		"93.184.215.14:22", "93.184.215.14:25", "93.184.215.14:445", "[2606:4700::1111]:53", // no ports of web servers
		"127.0.0.2:" + ownPort,
	}
	own, err := net.InterfaceAddrs()
	require.NoError(t, err)

	for _, a := range own {
		addresses = append(addresses, net.JoinHostPort(a.(*net.IPNet).IP.String(), "443"))
	}

	client, err := web.New(web.Config{Allow: allow, Own: listening})
	require.NoError(t, err)
	checks, err := netguard.New(allow, listening)
	require.NoError(t, err)

	servers := NewGuard(checks).Transport(false)

	for _, address := range addresses {
		_, err := client.Fetch(t.Context(), "http://"+address+"/", nil)
		require.True(t, domain.HasCode(err, "web_refused"), "WebFetch of %s: %v", address, err)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/", nil)
		require.NoError(t, err)
		_, err = servers.RoundTrip(request) //nolint:bodyclose // there is none
		require.ErrorIs(t, err, errNotPublic, "tool server at %s", address)
	}
}
