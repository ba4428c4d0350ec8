//go:build linux

package sandbox

import (
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// proxied gives the command a proxy that answers every request with its URL.
func proxied(t *testing.T, spec Spec) Spec {
	t.Helper()

	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "proxied "+r.URL.String())
	})}

	t.Cleanup(func() { _ = server.Close() })

	spec.Proxy = func(l net.Listener) { go func() { _ = server.Serve(l) }() }

	return spec
}

func TestProxy_isReachedByItsVariables(t *testing.T) {
	t.Parallel()
	apart(t, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)
		for range 3 { // the later ones in sandboxes that were ready
			out, r := sh(t, s, proxied(t, x.spec("curl -sS http://example.test/page; echo; echo $HTTPS_PROXY $all_proxy $no_proxy")))
			require.True(t, r.Success(), out)
			require.Equal(t, "proxied http://example.test/page\nhttp://127.0.0.1:3128 http://127.0.0.1:3128 localhost,127.0.0.1,::1", out)
		}

		out, _ := sh(t, s, x.spec("env | grep -ci proxy; exec 3<>/dev/tcp/127.0.0.1/3128"))
		require.Contains(t, out, "0\n")
		require.Contains(t, out, "Connection refused", "a command without a proxy has none")
	})
}

func TestProxy_isTheOnlyWayOut(t *testing.T) {
	t.Parallel()
	apart(t, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)
		host, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = host.Close() })

		_, port, _ := net.SplitHostPort(host.Addr().String())
		for _, script := range []string{
			"curl -sS --max-time 5 --noproxy '*' http://93.184.215.14/",
			"curl -sS --max-time 5 --noproxy '*' http://127.0.0.1:" + port + "/",
			"curl -sS --max-time 5 --noproxy '*' http://[2606:4700:4700::1111]/",
			"getent hosts example.org", "getent ahosts dns.google",
			"echo query >/dev/udp/1.1.1.1/53", "echo query >/dev/udp/127.0.0.53/53 && echo again >/dev/udp/10.0.0.1/53",
			"exec 3<>/dev/tcp/169.254.169.254/80",
		} {
			out, r := sh(t, s, proxied(t, x.spec(script)))
			require.NotZero(t, r.ExitCode, "%s: %s", script, out)
			require.NotContains(t, out, "proxied")
		}

		out, _ := sh(
			t,
			s,
			proxied(
				t,
				x.spec(
					"ls /sys/class/net 2>/dev/null; cut -d: -f1 /proc/net/dev | tail -n +3; "+
						"tail -n +2 /proc/net/route; ls -l /proc/1/fd 2>&1",
				),
			),
		)
		require.NotContains(t, out, "eth")
		require.NotContains(t, out, "socket:", "process 1 shows no descriptor")
	})
}

func TestProxy_listenerGoesWithItsSandbox(t *testing.T) {
	t.Parallel()
	apart(t, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)
		first, second := make(chan net.Listener, 1), make(chan net.Listener, 1)
		spec := x.spec("curl -s --max-time 20 http://example.test/; true")
		spec.Proxy = func(l net.Listener) { first <- l }
		p, err := s.Start(t.Context(), spec)
		require.NoError(t, err)

		l := <-first
		conn, err := l.Accept()
		require.NoError(t, err)

		spec.Proxy = func(l net.Listener) { second <- l }
		other, err := s.Start(t.Context(), spec)
		require.NoError(t, err)
		require.NotEqual(t, l, <-second, "each command has a proxy of its own")
		p.Kill()
		_, err = p.Wait()
		require.NoError(t, err)
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))

		_, err = io.ReadAll(conn)
		if err != nil {
			require.NotErrorIs(t, err, io.ErrNoProgress)
			timeout, ok := err.(net.Error)
			require.False(t, ok && timeout.Timeout(), "the end of a killed command's connection is seen")
		}

		require.NoError(t, l.Close())
		other.Kill()
		_, _ = other.Wait()
	})
}

// A thousand connections of one command at once.
func TestProxy_aThousandConnections(t *testing.T) {
	t.Parallel()
	s := open(t, Config{MinLevel: Namespaced})
	x := newSession(t, s)
	spec := x.spec(`for i in $(seq 1000); do exec {fd}<>/dev/tcp/127.0.0.1/3128 || exit 9; done; echo opened`)
	spec.Limits.OpenFiles = 2048

	var (
		open sync.WaitGroup
		seen atomic.Int32
	)

	spec.Proxy = func(l net.Listener) {
		open.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}

				seen.Add(1)
				open.Go(func() {
					_, _ = io.Copy(io.Discard, conn)
					_ = conn.Close()
				})

				if seen.Load() == 1000 {
					_ = l.Close()
				}
			}
		})
	}
	out, r := sh(t, s, spec)
	require.True(t, r.Success(), out)
	open.Wait()
	require.EqualValues(t, 1000, seen.Load())
}

// Where commands share the host's network there is no proxy, and no network either.
func TestProxy_notWithoutANetworkOfItsOwn(t *testing.T) {
	t.Parallel()
	s := open(t, Config{MinLevel: Landlocked, MaxLevel: Landlocked})
	require.False(t, s.Networked())
	x := newSession(t, s)
	spec := x.spec("echo ${http_proxy:-none}; exec 3<>/dev/tcp/127.0.0.1/80")
	spec.Proxy = func(net.Listener) { t.Error("there is no listener to give") }
	out, r := sh(t, s, spec)
	require.NotZero(t, r.ExitCode)
	require.Contains(t, out, "none\n")
}
