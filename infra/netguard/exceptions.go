package netguard

import (
	"fmt"
	"net"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
)

// exceptions are the addresses that an operator allows.
type exceptions struct {
	hosts    map[string]bool
	suffixes []string // ".corp.example" for *.corp.example
	networks []netip.Prefix
	// Exceptions with a port, with prefixes of paths: "" for all.
	named  map[string][]string // by host:port
	places map[netip.AddrPort][]string
}

func parseExceptions(list []string) (exceptions, error) {
	e := exceptions{hosts: map[string]bool{}, named: map[string][]string{}, places: map[netip.AddrPort][]string{}}
	for _, entry := range list {
		if err := e.add(strings.TrimSpace(entry)); err != nil {
			return e, err
		}
	}

	return e, nil
}

// add parses one exception: a host, host:port, host:port/path/, *.domain or a network.
func (e *exceptions) add(entry string) error {
	if entry == "" {
		return nil
	}

	if network, err := netip.ParsePrefix(entry); err == nil {
		e.networks = append(e.networks, network.Masked())
		return nil
	}

	if addr, err := netip.ParseAddr(unbracketed(entry)); err == nil {
		addr = addr.Unmap()
		e.networks = append(e.networks, netip.PrefixFrom(addr, addr.BitLen()))

		return nil
	}

	if suffix, ok := strings.CutPrefix(strings.ToLower(entry), "*."); ok && isName(suffix) {
		e.suffixes = append(e.suffixes, "."+suffix)
		return nil
	}

	place, below, limited := strings.Cut(strings.ToLower(entry), "/")
	if limited {
		below = entry[len(place):] // paths are case-sensitive
	}

	host, port, err := net.SplitHostPort(place)
	if err != nil {
		host, port = place, ""
	}

	number, err := strconv.ParseUint(port, 10, 16)

	addr, notAddress := netip.ParseAddr(host)
	switch {
	case port == "" && !limited && isName(host):
		e.hosts[host] = true
	case port == "" || err != nil || number == 0 || limited && path.Clean(below) != strings.TrimSuffix(below, "/"):
		return notUnderstood(entry)
	case notAddress == nil:
		at := netip.AddrPortFrom(addr.Unmap(), uint16(number))
		e.places[at] = append(e.places[at], below)
	case isName(host):
		at := hostPort(host, uint16(number))
		e.named[at] = append(e.named[at], below)
	default:
		return notUnderstood(entry)
	}

	return nil
}

func notUnderstood(entry string) error {
	return fmt.Errorf("%q is neither a host, host:port, host:port/path/, *.domain, an address nor a network", entry)
}

func unbracketed(s string) string {
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		return s[1 : len(s)-1]
	}

	return s
}

// isName reports whether s has the form of a host name in lower-case ASCII.
func isName(s string) bool {
	return s != "" && len(s) <= 253 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
}

// exactly reports whether an exception names this port, for this path.
func (e *exceptions) exactly(host string, addr netip.Addr, port uint16, wanted string) bool {
	below := slices.Concat(e.places[netip.AddrPortFrom(addr, port)], e.named[hostPort(host, port)])

	return slices.ContainsFunc(below, func(prefix string) bool {
		// The server could resolve a path with dots to another one.
		return prefix == "" || strings.HasPrefix(wanted, prefix) && path.Clean(wanted) == strings.TrimSuffix(wanted, "/")
	})
}

// admit reports whether an exception allows the host or its address on all ports.
func (e *exceptions) admit(host string, addr netip.Addr) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if e.hosts[host] {
		return true
	}

	for _, suffix := range e.suffixes {
		if strings.HasSuffix(host, suffix) {
			return true
		}
	}

	for _, network := range e.networks {
		if network.Contains(addr) {
			return true
		}
	}

	return false
}

func hostPort(host string, port uint16) string {
	return net.JoinHostPort(strings.ToLower(strings.TrimSuffix(host, ".")), strconv.Itoa(int(port)))
}

// parsePorts returns the ports of listening addresses.
func parsePorts(addresses []string) (map[uint16]bool, error) {
	ports := map[uint16]bool{}

	for _, address := range addresses {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("%q is not host:port: %w", address, err)
		}

		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("%q has no numeric port", address)
		}

		ports[uint16(number)] = true
	}

	return ports, nil
}
