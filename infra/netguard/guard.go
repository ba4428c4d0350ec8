// Package netguard decides which network addresses may be connected to on behalf of a model, a
// page or a user: the public Internet, and an operator's exceptions. It is called at connect time
// with the resolved address, and does not depend on the purpose of the connection.
package netguard

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/net/idna"
)

// Refusal is the error of a refused connection, with a reason.
type Refusal struct{ reason string }

func (r *Refusal) Error() string { return r.reason }

func refusef(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// Guard checks addresses. It is immutable and safe for concurrent use.
type Guard struct {
	exceptions exceptions
	own        map[uint16]bool
}

// New returns a new Guard. allow lists exceptions that are allowed although they are not public:
// "host", "host:port", "host:port/path/", "*.domain", or a network such as 10.1.0.0/16; host can
// be an address. A name allows all addresses that it resolves to, a path everything below it. own
// lists the host:port addresses on which this service listens: they are allowed only by an
// exception with the port. New returns an error for an invalid entry.
func New(allow, own []string) (*Guard, error) {
	g := &Guard{}

	var err error
	if g.exceptions, err = parseExceptions(allow); err != nil {
		return nil, err
	}

	g.own, err = parsePorts(own)

	return g, err
}

// forbidden contains forbidden networks with their descriptions, from IANA's registries of
// special-purpose addresses. IPv6 addresses outside publicUnicast are forbidden, too.
var forbidden = []struct {
	network netip.Prefix
	what    string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "an unspecified address"},
	{netip.MustParsePrefix("10.0.0.0/8"), "a private address"},
	{netip.MustParsePrefix("100.64.0.0/10"), "a carrier's private address"},
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address"},
	{netip.MustParsePrefix("168.63.129.16/32"), "a metadata service of a cloud"},
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local address"}, // includes metadata services
	{netip.MustParsePrefix("172.16.0.0/12"), "a private address"},
	{netip.MustParsePrefix("192.0.0.0/24"), "a reserved address"},
	{netip.MustParsePrefix("192.0.2.0/24"), "a reserved address"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a reserved address"},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private address"},
	{netip.MustParsePrefix("198.18.0.0/15"), "a reserved address"},
	{netip.MustParsePrefix("198.51.100.0/24"), "a reserved address"},
	{netip.MustParsePrefix("203.0.113.0/24"), "a reserved address"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address"},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved address"},
	{netip.MustParsePrefix("::/128"), "an unspecified address"},
	{netip.MustParsePrefix("::1/128"), "a loopback address"},
	{netip.MustParsePrefix("64:ff9b::/96"), "a translated address"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "a translated address"},
	{netip.MustParsePrefix("2001::/23"), "a reserved address"}, // Teredo and others
	{netip.MustParsePrefix("2001:db8::/32"), "a reserved address"},
	{netip.MustParsePrefix("2002::/16"), "a translated address"}, // 6to4
	{netip.MustParsePrefix("3fff::/20"), "a reserved address"},
	{netip.MustParsePrefix("fc00::/7"), "a private address"},
	{netip.MustParsePrefix("fe80::/10"), "a link-local address"},
	{netip.MustParsePrefix("ff00::/8"), "a multicast address"},
}

// publicUnicast contains all IPv6 unicast addresses that are allocated to the public so far.
var publicUnicast = netip.MustParsePrefix("2000::/3")

// notPublic describes why an address is not public; empty: it is.
func notPublic(addr netip.Addr) string {
	if addr.Zone() != "" {
		return "a link-local address"
	}

	addr = addr.Unmap() // ::ffff:127.0.0.1 is 127.0.0.1
	for _, f := range forbidden {
		if f.network.Contains(addr) {
			return f.what
		}
	}

	if addr.Is6() && !publicUnicast.Contains(addr) {
		return "a reserved address"
	}

	return ""
}

// Control returns the Control function of a net.Dialer that connects to host for a request of
// path; an empty path matches no exception with a path. It runs for every dialled address,
// between resolution and connection, so that DNS rebinding has no effect.
func (g *Guard) Control(host, path string) func(network, address string, _ syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return refusef("%s cannot be reached: it has no ordinary address", host)
		}

		return g.Check(host, to, path)
	}
}

// Check returns a *Refusal when a connection to an address of host is refused.
func (g *Guard) Check(host string, to netip.AddrPort, path string) error {
	named, err := g.check(host, to, path)
	if err != nil || named {
		return err
	}

	return checkPort(host, to.Port())
}

// CheckAddress is Check for a caller with its own rules for ports.
func (g *Guard) CheckAddress(host string, to netip.AddrPort) error {
	_, err := g.check(host, to, "")
	return err
}

// CheckName returns a *Refusal when a host is refused for all its possible addresses: it is a
// forbidden address, the name of this machine, or a name outside the public DNS. It does not
// resolve the name, because a lookup would already send it to its owner.
func (g *Guard) CheckName(host string, port uint16, path string) error {
	if addr, err := netip.ParseAddr(host); err == nil {
		return g.Check(host, netip.AddrPortFrom(addr, port), path)
	}

	local := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return g.Check(host, local, path)
	}

	named := g.exceptions.exactly(host, local.Addr(), port, path) || g.exceptions.admit(host, netip.Addr{})
	if !named && !publicName(host) {
		return refusef("%s is not on the public Internet: the public DNS does not have such names", host)
	}

	return nil
}

// CheckPublicURL returns a *Refusal for a web address, to be fetched by another server, whose
// host is not public by its name, as in CheckName. Exceptions do not apply. A name that resolves
// to a private address passes: only the connecting server can check that.
func CheckPublicURL(raw string) error {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || u.Hostname() == "" || u.User != nil {
		return refusef("it is not a web address that names a host and no user")
	}

	if u.Scheme != "http" && u.Scheme != "https" {
		return refusef("its scheme is not http or https")
	}

	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if _, err := netip.ParseAddr(host); err != nil {
		if host, err = idna.Lookup.ToASCII(host); err != nil {
			return refusef("its host is not a valid name")
		}
	}

	port := uint64(443)
	if u.Scheme == "http" {
		port = 80
	}

	if text := u.Port(); text != "" {
		if port, err = strconv.ParseUint(text, 10, 16); err != nil || port == 0 {
			return refusef("its port is invalid")
		}
	}

	if err := (&Guard{}).CheckName(host, uint16(port), ""); err != nil {
		return err
	}

	return checkPort(host, uint16(port))
}

// notPublicDomains are top-level domains that are reserved or used in private networks only.
var notPublicDomains = []string{"internal", "local", "lan", "home", "corp", "intranet", "arpa", "onion", "test", "invalid"}

func publicName(host string) bool {
	at := strings.LastIndexByte(host, '.')
	top := host[at+1:]

	// Some resolvers parse names that end with a number, such as 127.1 or 0x7f.1, as addresses.
	return at > 0 && top != "" && (top[0] < '0' || top[0] > '9') && !slices.Contains(notPublicDomains, top)
}

// check checks the address; named: an exception allows it, on any port.
func (g *Guard) check(host string, to netip.AddrPort, path string) (named bool, err error) {
	addr, port := to.Addr().Unmap(), to.Port()
	if g.exceptions.exactly(host, addr, port, path) {
		return true, nil
	}

	here := ofThisMachine(addr)
	if here && g.own[port] {
		return false, refusef("%s is this service itself, which is not fetched from", hostPort(host, port))
	}

	if g.exceptions.admit(host, addr) {
		return true, nil
	}

	if what := notPublic(to.Addr()); what != "" {
		return false, refusef("%s is not on the public Internet: it has %s", host, what)
	}

	if here {
		return false, refusef("%s is the machine that this service runs on", host)
	}

	return false, nil
}

// checkPort allows only the ports of web servers, so that requests cannot reach other protocols.
func checkPort(host string, port uint16) error {
	if port == 80 || port == 443 || port >= 1024 {
		return nil
	}

	return refusef("port %d of %s is not one for web pages", port, host)
}

// ofThisMachine reports whether the address belongs to this machine, including public addresses.
func ofThisMachine(addr netip.Addr) bool {
	if addr.IsLoopback() || addr.IsUnspecified() {
		return true
	}

	own, err := net.InterfaceAddrs()
	if err != nil {
		return false // private addresses are already forbidden
	}

	for _, a := range own {
		if network, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(network.IP); ok && ip.Unmap() == addr {
				return true
			}
		}
	}

	return false
}
