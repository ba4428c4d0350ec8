// Package clients identifies the clients of a listener by address, including clients behind
// trusted proxies, and limits the connections of each.
package clients

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the addresses of trusted reverse proxies, whose X-Forwarded-For is used.
type Proxies []netip.Prefix

// ParseProxies parses addresses and networks, such as 10.0.0.5 or 10.0.0.0/8. Empty entries are
// skipped.
func ParseProxies(entries []string) (Proxies, error) {
	var (
		proxies Proxies
		faults  []error
	)

	for _, entry := range entries {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}

		network, err := netip.ParsePrefix(entry)
		if err != nil {
			var addr netip.Addr
			if addr, err = netip.ParseAddr(entry); err == nil {
				network = netip.PrefixFrom(addr, addr.BitLen())
			}
		}

		if err != nil {
			faults = append(faults, fmt.Errorf("%q is neither an address nor a network: write 10.0.0.5 or 10.0.0.0/8", entry))
			continue
		}

		proxies = append(proxies, network.Masked())
	}

	return proxies, errors.Join(faults...)
}

// Trusts reports whether a peer is one of the proxies.
func (p Proxies) Trusts(peer netip.Addr) bool {
	peer = peer.Unmap()
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(peer) })
}

// Client returns the address of the client behind a peer. forwarded contains the values of
// X-Forwarded-For in order: the last entry that is not a trusted proxy is the client, since
// clients can forge the entries before it. An invalid entry ends the search.
func (p Proxies) Client(peer netip.Addr, forwarded ...string) netip.Addr {
	client := peer.Unmap()

	entries := strings.Split(strings.Join(forwarded, ","), ",")
	for _, entry := range slices.Backward(entries) {
		if !p.Trusts(client) {
			break
		}

		next, err := netip.ParseAddr(strings.TrimSpace(entry))
		if err != nil {
			break
		}

		client = next.Unmap().WithZone("")
	}

	return client
}

// IP returns an address as text, without a zone; empty for the zero address.
func IP(addr netip.Addr) string {
	if !addr.IsValid() {
		return ""
	}

	return addr.Unmap().WithZone("").String()
}

// Network returns the network that limits count as one client: an IPv4 address, or the /64 of an
// IPv6 address, because one machine can use a whole /64.
func Network(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")

	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}

	network, _ := addr.Prefix(bits) // the zero prefix for the zero address

	return network
}
