// Package hosts decides which values of the Host header a listener accepts. It rejects pages
// whose name resolves to this machine (DNS rebinding), because browsers send that name.
package hosts

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strings"
)

// List contains the allowed hosts in addition to hosts that are always allowed: IP addresses,
// which DNS cannot redirect, localhost, and names without a dot, which are on the local network,
// such as the services of a compose file.
type List []string

// Any as an entry of a List allows every host, for a listener behind a proxy that checks names
// itself.
const Any = "*"

// Check returns an error for entries that are not hosts. An entry is a name without a port, such
// as everloop.example.org, or *.example.org for all names below example.org.
func (l List) Check() error {
	var faults []error

	for _, entry := range l {
		name := strings.TrimPrefix(entry, "*.")
		if entry != Any && (name == "" || strings.ContainsAny(name, "*/:@ \t")) {
			faults = append(
				faults,
				fmt.Errorf("%q is not a host name: give it without scheme, port and path, as everloop.example.org", entry),
			)
		}
	}

	return errors.Join(faults...)
}

// local matches names that public DNS servers do not resolve.
var local = regexp.MustCompile(`^[a-z0-9_-]+$`)

// Allows reports whether a request with this Host header is allowed, with any port.
func (l List) Allows(host string) bool {
	name := host
	if bare, _, err := net.SplitHostPort(host); err == nil {
		name = bare
	}

	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}

	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if local.MatchString(name) || strings.HasSuffix(name, ".localhost") {
		return true
	}

	for _, entry := range l {
		if matches(strings.ToLower(entry), name) {
			return true
		}
	}

	return false
}

func matches(entry, name string) bool {
	if domain, wildcard := strings.CutPrefix(entry, "*."); wildcard {
		return strings.HasSuffix(name, "."+domain)
	}

	return entry == Any || entry == name
}
