package toolserver

import (
	"net/url"
	"strconv"

	"everloop/domain"
)

// UnderPolicy reports whether the network policy of a session applies to connections with
// the server. It does not apply to servers of the service and of a solution's files, which
// administrators and operators configure, and not to processes, whose sandbox has its own
// network.
func (s Record) UnderPolicy() bool {
	return s.Transport == HTTP && s.Scope != OfService && s.ID != ""
}

// Refusal returns why the network policy of a session refuses the server; empty if it does
// not. A host without a rule is allowed, because the owner of the server named it by its URL.
func (s Record) Refusal(policy domain.NetworkPolicy) string {
	if !s.UnderPolicy() {
		return ""
	}

	if !policy.Mode.Open() {
		return "this session has no network"
	}

	host, port, err := s.destination()
	if err != nil {
		return "its URL cannot be used"
	}

	if policy.Decide(host, port) == domain.PermissionDeny {
		return "the network rules of this session do not allow its host"
	}

	return ""
}

// destination returns the canonical host and the port of the server's URL.
func (s Record) destination() (host string, port uint16, err error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return "", 0, err
	}

	if host, err = domain.CanonicalHost(u.Hostname()); err != nil {
		return "", 0, err
	}

	text := u.Port()

	switch {
	case text != "":
	case u.Scheme == "http":
		return host, 80, nil
	default:
		return host, 443, nil
	}

	number, err := strconv.ParseUint(text, 10, 16)

	return host, uint16(number), err
}
