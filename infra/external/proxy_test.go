package external_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxyTLS serves an engine of the tests over TLS, to requests that admit lets
// through. It gives its address.
func proxyTLS(t *testing.T, p *pki, backend string, grpc, demandCert bool, admit func(*http.Request) bool) string {
	t.Helper()

	target, err := url.Parse("http://" + backend)
	require.NoError(t, err)

	transport := &http.Transport{}
	if grpc {
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetUnencryptedHTTP2(true)
	}

	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // part of what an S3 client signs
		},
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !admit(r) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}

		proxy.ServeHTTP(w, r)
	}))
	server.TLS = p.serverTLS(t, demandCert)
	server.EnableHTTP2 = grpc
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)

	return server.Listener.Addr().String()
}

// freePort returns a port of this machine that nothing listens on, below those that
// outgoing connections take.
func freePort(t *testing.T) int {
	t.Helper()

	for range 100 {
		port := 20000 + rand.IntN(8000)

		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			require.NoError(t, listener.Close())
			return port
		}
	}

	t.Fatal("no free port")

	return 0
}
