package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	"everloop/domain"
	"everloop/infra/netguard"
)

// refusal is the error of a forbidden connection.
type refusal struct{ place, why string }

func (r *refusal) Error() string {
	return fmt.Sprintf("connections to %s are refused: %s", r.place, r.why)
}

// dialAddress is dial in the form of http.Transport.DialContext.
func (c *Command) dialAddress(ctx context.Context, _, address string) (net.Conn, error) {
	host, port, err := splitAddress(address)
	if err != nil {
		return nil, err
	}

	return c.dial(ctx, host, port)
}

func splitAddress(address string) (host string, port uint16, err error) {
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, errNoAddress
	}

	at, err := strconv.ParseUint(number, 10, 16)
	if err != nil || at == 0 || host == "" {
		return "", 0, errNoAddress
	}

	return host, uint16(at), nil
}

var errNoAddress = errors.New("the request does not contain a host and a port")

// dial connects to a port of a host if the policy and the guard allow it, and records the result.
func (c *Command) dial(ctx context.Context, named string, port uint16) (net.Conn, error) {
	host, err := domain.CanonicalHost(named)
	if err != nil {
		return nil, c.refuse(shown(named), port, err.Error())
	}

	ctx, cancel := context.WithTimeout(ctx, c.proxy.cfg.DialTimeout)
	defer cancel()

	stop := context.AfterFunc(c.ctx, cancel)
	defer stop()

	policy, err := c.rules.policy(ctx)
	if err != nil {
		return nil, c.refuse(host, port, "the rules could not be read, try again later")
	}

	if why := policy.Refusal(host, port); why != "" {
		return nil, c.refuse(host, port, why)
	}

	dialer := net.Dialer{Resolver: c.proxy.cfg.Resolver, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}

		return c.proxy.cfg.Guard.CheckAddress(host, to)
	}}

	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(port))))
	if refused, ok := errors.AsType[*netguard.Refusal](err); ok {
		return nil, c.refuse(host, port, refused.Error())
	}

	record := c.store.note(host, port, domain.ConnectionAllowed, unreachable(ctx, err))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be reached: %s", place(host, port), unreachable(ctx, err))
	}

	return c.keep(&tracked{Conn: idle{metered{conn, record}, c.proxy.cfg.Idle}, host: host, port: port}, func() {}), nil
}

func (c *Command) refuse(host string, port uint16, why string) error {
	c.store.note(host, port, domain.ConnectionRefused, why)
	return &refusal{place(host, port), why}
}

// unreachable describes the failure of a connection without addresses.
func unreachable(ctx context.Context, err error) string {
	unknown, dns := errors.AsType[*net.DNSError](err)

	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case err == nil:
		return ""
	case dns && unknown.IsNotFound:
		return "there is no host of this name"
	case dns:
		return "its name could not be looked up"
	case ctx.Err() != nil, ok && timeout.Timeout():
		return "it did not answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "it refused the connection"
	default:
		return "no connection could be made"
	}
}

func place(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// shown returns a command's host, truncated and sanitised.
func shown(host string) string {
	host = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '?'
		}

		return r
	}, host)

	return host[:min(len(host), 253)]
}
