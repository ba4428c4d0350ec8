package clients

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProxies_Client(t *testing.T) {
	t.Parallel()

	proxies, err := ParseProxies([]string{"10.0.0.0/8", "", " 192.0.2.1 ", "fd00::/8"})
	require.NoError(t, err)

	for name, c := range map[string]struct {
		peer      string
		forwarded []string
		want      string
	}{
		"direct":                   {"203.0.113.7", nil, "203.0.113.7"},
		"header of no proxy":       {"203.0.113.7", []string{"198.51.100.1"}, "203.0.113.7"},
		"behind a proxy":           {"10.1.2.3", []string{"198.51.100.1"}, "198.51.100.1"},
		"mapped peer":              {"::ffff:10.1.2.3", []string{"198.51.100.1"}, "198.51.100.1"},
		"forged entry before":      {"10.1.2.3", []string{"1.2.3.4, 198.51.100.1"}, "198.51.100.1"},
		"two proxies, two headers": {"10.1.2.3", []string{"1.2.3.4", "198.51.100.1, 192.0.2.1"}, "198.51.100.1"},
		"no header":                {"10.1.2.3", nil, "10.1.2.3"},
		"not an address":           {"10.1.2.3", []string{"198.51.100.1, unknown"}, "10.1.2.3"},
		"only proxies":             {"10.1.2.3", []string{"10.9.9.9"}, "10.9.9.9"},
		"IPv6":                     {"fd00::1", []string{"2001:db8::1%eth0"}, "2001:db8::1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, proxies.Client(netip.MustParseAddr(c.peer), c.forwarded...).String())
		})
	}

	_, err = ParseProxies([]string{"proxy.example.org", "10.0.0.0/40"})
	require.ErrorContains(t, err, "proxy.example.org")
	require.ErrorContains(t, err, "10.0.0.0/40")
}

func TestIP(t *testing.T) {
	t.Parallel()

	require.Empty(t, IP(netip.Addr{}))

	for addr, want := range map[string]string{"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "fe80::1%eth0": "fe80::1"} {
		require.Equal(t, want, IP(netip.MustParseAddr(addr)))
	}
}

func TestNetwork(t *testing.T) {
	t.Parallel()

	for addr, want := range map[string]string{
		"203.0.113.7": "203.0.113.7/32", "::ffff:203.0.113.7": "203.0.113.7/32", "2001:db8:1:2:3::4": "2001:db8:1:2::/64",
	} {
		require.Equal(t, want, Network(netip.MustParseAddr(addr)).String())
	}
}

const refused = "HTTP/1.1 429 Too Many Requests\r\n\r\n"

func TestConnections_bounds_each_client(t *testing.T) {
	t.Parallel()

	connections := NewConnections(2, nil)
	accepted, dial := serve(t, connections)
	first, second := dial(), dial()
	one := <-accepted
	<-accepted

	third := dial()
	answer, err := io.ReadAll(third)
	require.NoError(t, err)
	require.Equal(t, refused, string(answer))

	require.NoError(t, one.Close())
	_ = one.Close() // a connection that is closed twice is counted once

	dial()

	fourth := <-accepted
	require.True(t, fourth.Begin(netip.MustParseAddr("198.51.100.1")), "a client is no proxy")

	_, _ = first, second

	require.Equal(t, 2, connections.open.Running(netip.MustParsePrefix("127.0.0.1/32")))
}

func TestConnections_counts_requests_of_a_trusted_proxy(t *testing.T) {
	t.Parallel()

	proxies, err := ParseProxies([]string{"127.0.0.1"})
	require.NoError(t, err)

	connections := NewConnections(2, proxies)
	accepted, dial := serve(t, connections)

	var conns []*Conn

	for range 4 {
		dial()

		conns = append(conns, <-accepted)
	}

	ann, bob := netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.2")
	require.True(t, conns[0].Begin(ann))
	require.True(t, conns[0].Begin(ann), "the next request on the same connection")
	require.True(t, conns[1].Begin(ann))
	require.False(t, conns[2].Begin(ann))
	require.True(t, conns[2].Begin(bob))
	conns[1].Idle()
	require.True(t, conns[3].Begin(ann))

	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}

	for _, client := range []netip.Addr{ann, bob} {
		require.Zero(t, connections.open.Running(Network(client)))
	}
}

// serve accepts connections within the bound.
func serve(t *testing.T, connections *Connections) (accepted chan *Conn, dial func() net.Conn) {
	t.Helper()

	plain, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	listener := connections.Listen(plain, func() []byte { return []byte(refused) })

	t.Cleanup(func() { _ = listener.Close() })

	accepted = make(chan *Conn, 16)

	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}

			accepted <- conn.(*Conn)
		}
	}()

	return accepted, func() net.Conn {
		conn, err := net.Dial("tcp", plain.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))

		return conn
	}
}
