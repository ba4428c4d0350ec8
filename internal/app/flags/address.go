package flags

import (
	"errors"
	"fmt"
	"net"
	"net/url"
)

// CheckAddress checks where a listener is, as the value of a variable.
func CheckAddress(variable, value string) error {
	if _, _, err := net.SplitHostPort(value); err != nil {
		return fmt.Errorf("%s must be host:port, as 127.0.0.1:8020: %w", variable, err)
	}

	return nil
}

// Listen takes a port; one that is taken is one clear error.
func Listen(variable, addr string) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return nil, fmt.Errorf("cannot listen on %s (%w): choose another address with %s", addr, op.Err, variable)
	}

	return listener, err
}

// Reachable returns a listener's address as one to connect to.
func Reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("127.0.0.1", port)
	}

	return addr
}

// CheckURL checks the URL of another service; an empty one is none.
func CheckURL(variable, text string) error {
	if text != "" && !IsWeb(text) {
		return fmt.Errorf("%s must start with http:// or https://", variable)
	}

	return nil
}

// IsWeb reports whether a text is the URL of a web page or of a service.
func IsWeb(text string) bool {
	at, err := url.Parse(text)
	return err == nil && (at.Scheme == "http" || at.Scheme == "https") && at.Host != ""
}
