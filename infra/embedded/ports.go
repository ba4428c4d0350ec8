package embedded

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"syscall"
)

// Random ports are below the kernel's ephemeral range (32768 upwards by default): an outgoing
// connection could take a port of that range between the probe and the listen.
const (
	firstRandomPort = 20000
	lastRandomPort  = 32767
)

// probe returns an error for an invalid or unavailable address that names its setting. Port 0 is
// always available.
func (l Listen) probe() error {
	if _, _, err := l.split(); err != nil {
		return err
	}

	listener, err := net.Listen("tcp", l.Addr)
	switch {
	case err == nil:
		return listener.Close()
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf(
			"address %s is already in use: stop the program that listens there, or set %s to another address",
			l.Addr,
			l.Variable,
		)
	default:
		return fmt.Errorf("cannot listen on %s (%s): %w", l.Addr, l.Variable, err)
	}
}

// split parses the address into an IP and a port.
func (l Listen) split() (netip.Addr, int, error) {
	fault := func(why string) error {
		return fmt.Errorf("%s: %q is not a listen address of the form host:port: %s", l.Variable, l.Addr, why)
	}

	host, portText, err := net.SplitHostPort(l.Addr)
	if err != nil {
		return netip.Addr{}, 0, fault("a host and a port are needed")
	}

	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return netip.Addr{}, 0, fault("the port is not a number from 0 to 65535")
	}

	if host == "" {
		host = "0.0.0.0"
	}

	ip, err := netip.ParseAddr(host)
	if err != nil {
		found, lookupErr := net.DefaultResolver.LookupNetIP(context.Background(), "ip4", host)
		if lookupErr != nil || len(found) == 0 {
			return netip.Addr{}, 0, fault("the host is neither an IP address nor a known name")
		}

		ip = found[0].Unmap()
	}

	return ip, int(port), nil
}

// dialHost returns the address for connecting from this machine to a listener on ip.
func dialHost(ip netip.Addr) string {
	if !ip.IsUnspecified() {
		return ip.String()
	}

	if ip.Is6() {
		return "::1"
	}

	return "127.0.0.1"
}

func loopback(port int) string { return joinHostPort("127.0.0.1", port) }

// freePort returns a free loopback port.
func freePort() (int, error) {
	for range 1000 {
		port := firstRandomPort + rand.IntN(lastRandomPort-firstRandomPort+1)

		listener, err := net.Listen("tcp", loopback(port))
		if err == nil {
			return port, listener.Close()
		}
	}

	return 0, fmt.Errorf("no free loopback port between %d and %d", firstRandomPort, lastRandomPort)
}
