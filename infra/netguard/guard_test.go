package netguard

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGuard_Check_publicAddresses(t *testing.T) {
	t.Parallel()

	for _, public := range []string{
		"93.184.215.14", "::ffff:93.184.215.14", "1.1.1.1", "172.32.0.1", "100.128.0.1",
		"2606:4700:4700::1111", "2a00:1450:4001:81b::200e",
	} {
		require.Empty(t, notPublic(netip.MustParseAddr(public)), public)
	}

	for address, what := range map[string]string{
		"::ffff:10.0.0.1": "a private address", "::ffff:127.0.0.1": "a loopback address", "fe80::1%eth0": "a link-local address",
		"2606:4700::1%eth0": "a link-local address",
	} {
		require.Equal(t, what, notPublic(netip.MustParseAddr(address)), address)
	}
}

func TestGuard_Control_ownAddressesOfTheMachine(t *testing.T) {
	t.Parallel()

	g, err := New(nil, nil)
	require.NoError(t, err)
	own, err := net.InterfaceAddrs()
	require.NoError(t, err)

	for _, a := range own {
		ip := a.(*net.IPNet).IP
		err := g.Control(ip.String(), "/")("tcp", net.JoinHostPort(ip.String(), "443"), nil)
		require.Error(t, err, "%s is an address of this machine", ip)
	}

	require.NoError(t, g.Control("example.com", "/")("tcp4", "93.184.215.14:443", nil))
	require.NoError(t, g.Control("example.com", "/")("tcp6", "[2606:2800:21f:cb07:6820:80da:af6b:8b2c]:443", nil))
	require.ErrorAs(t, g.Control("x", "/")("tcp", "x:1", nil), new(*Refusal))
}

func TestGuard_Check_ports(t *testing.T) {
	t.Parallel()

	g, err := New([]string{"example.com:22"}, nil)
	require.NoError(t, err)

	at := netip.MustParseAddr("93.184.215.14")
	for _, port := range []uint16{80, 443, 8443} {
		require.NoError(t, g.Check("example.com", netip.AddrPortFrom(at, port), "/"))
	}

	for _, port := range []uint16{25, 53, 111, 445} {
		require.ErrorAs(t, g.Check("example.com", netip.AddrPortFrom(at, port), "/"), new(*Refusal))
	}

	require.NoError(t, g.Check("example.com", netip.AddrPortFrom(at, 22), "/"), "the operator named this port")
}
