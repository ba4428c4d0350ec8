package domain

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// NetworkMode is the network access of a session's commands.
type NetworkMode string

// None; what the rules of the session, its user and its solution allow; all of the public
// Internet except what a rule denies.
const (
	NetworkNone   NetworkMode = "none"
	NetworkRules  NetworkMode = "rules"
	NetworkPublic NetworkMode = "public"
)

var networkModes = []NetworkMode{NetworkNone, NetworkRules, NetworkPublic} // narrowest first

// Valid reports whether the mode is one of the three.
func (m NetworkMode) Valid() bool { return slices.Contains(networkModes, m) }

// Narrowed returns the narrower of two modes; an empty mode changes nothing.
func (m NetworkMode) Narrowed(by NetworkMode) NetworkMode {
	if by == "" || slices.Index(networkModes, by) > slices.Index(networkModes, m) {
		return m
	}

	return by
}

// NetworkTool is the tool of permission rules about domains instead of calls. The order of such
// rules does not matter: a denial always applies.
const NetworkTool = "Network"

// Bounds of network rules: the rules of a user, and the domains of one request for access.
const (
	MaxNetworkRules   = 200
	MaxAccessRequests = 20
)

// networkPorts are the ports of a rule without a port.
var networkPorts = []uint16{22, 80, 443}

// Errors of CanonicalHost.
var (
	ErrNoHostName = errors.New("it is not a valid host name")
	ErrOddAddress = errors.New("it is an address in an odd form; write it as four decimal numbers")
)

// CanonicalHost returns the canonical spelling of a host: a name in lower-case ASCII without a
// trailing dot, or an address. Names that some resolvers accept as addresses, such as 0x7f.1,
// 2130706433 or 127.1, are ErrOddAddress.
func CanonicalHost(host string) (string, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().String(), nil
	}

	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if !isHostName(name) {
		var err error
		if name, err = idna.Lookup.ToASCII(name); err != nil || !isHostName(name) {
			return "", ErrNoHostName
		}
	}

	if addr, err := netip.ParseAddr(name); err == nil { // an IPv4 address in a non-canonical form
		return addr.Unmap().String(), nil
	}

	last := name[strings.LastIndexByte(name, '.')+1:]
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") && strings.Trim(last[2:], "0123456789abcdef") == "" {
		return "", ErrOddAddress
	}

	return name, nil
}

func isHostName(s string) bool {
	if s == "" || len(s) > 253 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
		return false
	}

	return !slices.ContainsFunc(strings.Split(s, "."), func(label string) bool { return label == "" || len(label) > 63 })
}

// NetworkRule is the domain of a rule: a host, or with Below all names below it.
type NetworkRule struct {
	Host  string // canonical; empty: every domain
	Below bool
	Port  uint16 // 0: 22, 80 and 443
}

// ParseNetworkRule parses a rule: example.org, *.example.org, example.org:8443, or an address.
// A wildcard must be followed by at least two labels.
func ParseNetworkRule(pattern string) (NetworkRule, error) {
	var rule NetworkRule
	if len(pattern) > MaxPermissionPattern {
		return rule, fmt.Errorf("a domain is longer than %d bytes", MaxPermissionPattern)
	}

	host, port := pattern, ""
	if _, err := netip.ParseAddr(pattern); err != nil {
		if name, number, err := net.SplitHostPort(pattern); err == nil {
			host, port = name, number
			if number == "" {
				return rule, notNetworkRule(pattern, "its port is missing")
			}
		}
	}

	if port != "" {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 {
			return rule, notNetworkRule(pattern, "its port is not a number from 1 to 65535")
		}

		rule.Port = uint16(number)
	}

	host, rule.Below = strings.CutPrefix(host, "*.")

	var err error
	if rule.Host, err = CanonicalHost(host); err != nil {
		return rule, notNetworkRule(pattern, err.Error())
	}

	if _, err := netip.ParseAddr(rule.Host); rule.Below && (err == nil || !strings.Contains(rule.Host, ".")) {
		return rule, notNetworkRule(pattern, "a star stands for names below a domain of two labels at least")
	}

	return rule, nil
}

// NewNetworkRule is ParseNetworkRule for a new rule. It rejects a rule that matches all names
// below a public suffix, such as co.uk or github.io: each of these names has another owner.
func NewNetworkRule(pattern string, decision PermissionDecision) (NetworkRule, error) {
	rule, err := ParseNetworkRule(pattern)
	if err != nil || !rule.Below || decision == PermissionDeny {
		return rule, err
	}

	if suffix, _ := publicsuffix.PublicSuffix(rule.Host); suffix == rule.Host {
		return rule, notNetworkRule(pattern, "anyone can have a name below "+rule.Host+", so name the hosts that are needed")
	}

	return rule, nil
}

func notNetworkRule(pattern, why string) error {
	return fmt.Errorf("%q is not a domain as example.org, *.example.org or example.org:8443: %s", pattern, why)
}

// String returns the rule in the form that ParseNetworkRule parses.
func (r NetworkRule) String() string {
	host := r.Host
	if r.Below {
		host = "*." + host
	}

	if r.Port == 0 {
		return host
	}

	return net.JoinHostPort(host, strconv.Itoa(int(r.Port)))
}

// Matches reports whether the rule applies to a port of a canonical host.
func (r NetworkRule) Matches(host string, port uint16) bool {
	switch {
	case r.Port != 0 && r.Port != port, r.Port == 0 && !slices.Contains(networkPorts, port):
		return false
	case r.Below:
		return strings.HasSuffix(host, "."+r.Host)
	default:
		return r.Host == host
	}
}

// NetworkPolicy decides where the commands and tools of a session can connect. The zero value
// denies all connections.
type NetworkPolicy struct {
	Mode        NetworkMode
	allow, deny []NetworkRule
	allowAll    bool // an allowing rule without a domain
}

// NewNetworkPolicy returns the policy of a mode and of the rules whose tool is NetworkTool. A
// rule without a pattern applies to every domain; if it denies, there is no network access.
func NewNetworkPolicy(mode NetworkMode, rules []PermissionRule) NetworkPolicy {
	p := NetworkPolicy{Mode: mode}

	for _, r := range rules {
		if r.Tool != NetworkTool || r.Decision == PermissionAsk {
			continue
		}

		rule, err := ParseNetworkRule(r.Pattern)
		switch {
		case r.Pattern == "" && r.Decision == PermissionDeny:
			return NetworkPolicy{Mode: NetworkNone}
		case r.Pattern == "":
			p.allowAll = true
		case err != nil:
			continue // refused where it is written
		case r.Decision == PermissionDeny:
			p.deny = append(p.deny, rule)
		default:
			p.allow = append(p.allow, rule)
		}
	}

	return p
}

// Refusal returns why a connection to a port of a canonical host is refused; empty: the policy
// allows it, if it also allows the resolved address.
func (p NetworkPolicy) Refusal(host string, port uint16) string {
	matches := func(r NetworkRule) bool { return r.Matches(host, port) }

	_, literal := netip.ParseAddr(host)
	switch {
	case !p.Mode.Open():
		return "this session has no network"
	case slices.ContainsFunc(p.deny, func(r NetworkRule) bool {
		// A domain is denied on all its ports unless one is named.
		return matches(r) || r.Port == 0 && NetworkRule{Host: r.Host, Below: r.Below, Port: port}.Matches(host, port)
	}):
		return "a rule denies it"
	case slices.ContainsFunc(p.allow, matches):
		return ""
	case p.Mode == NetworkRules && (!p.allowAll || literal == nil):
		return NoNetworkRule
	case port >= 1024 || slices.Contains(networkPorts, port):
		return ""
	default:
		return fmt.Sprintf("port %d is not one that commands may connect to", port)
	}
}

// Decide returns the decision of the rules about a port of a canonical host: ask means that a
// further rule would allow it.
func (p NetworkPolicy) Decide(host string, port uint16) PermissionDecision {
	switch p.Refusal(host, port) {
	case "":
		return PermissionAllow
	case NoNetworkRule:
		return PermissionAsk
	default:
		return PermissionDeny
	}
}

// RuleFor returns the narrowest rule that allows a port of a canonical host.
func RuleFor(host string, port uint16) NetworkRule {
	if slices.Contains(networkPorts, port) {
		port = 0
	}

	return NetworkRule{Host: host, Port: port}
}

// Open reports whether the mode allows any connection.
func (m NetworkMode) Open() bool { return m == NetworkRules || m == NetworkPublic }

// Grants reports whether every connection that a rule matches is allowed by a rule for the same
// domain or a parent domain, and denied by none.
func (p NetworkPolicy) Grants(rule NetworkRule) bool {
	port := rule.Port
	if port == 0 {
		port = networkPorts[0]
	}

	if !rule.Below {
		return p.Refusal(rule.Host, port) == ""
	}

	within := func(r NetworkRule) bool {
		above := r.Below && (r.Host == rule.Host || strings.HasSuffix(rule.Host, "."+r.Host))
		return above && (r.Port == rule.Port || r.Port == 0 && slices.Contains(networkPorts, port))
	}

	denied := func(r NetworkRule) bool { return within(NetworkRule{Host: r.Host, Below: r.Below, Port: rule.Port}) }
	if !p.Mode.Open() || slices.ContainsFunc(p.deny, denied) {
		return false
	}

	return p.allowAll || p.Mode == NetworkPublic || slices.ContainsFunc(p.allow, within)
}

// NoNetworkRule is the Refusal that a further rule can remove.
const NoNetworkRule = "no rule allows it"

// NetworkDecision is the decision about a connection of a command.
type NetworkDecision string

// Allowed connections were attempted; refused ones were not.
const (
	ConnectionAllowed NetworkDecision = "allowed"
	ConnectionRefused NetworkDecision = "refused"
)

// Connection sums up a command's connections to one port of a host.
type Connection struct {
	Host          string          `json:"host" doc:"As the command named it; * for those beyond the first 50 places."`
	Port          int             `json:"port" doc:"0 beside the host *."`
	Decision      NetworkDecision `json:"decision" enum:"allowed,refused" doc:"The decision about the call."`
	Reason        string          `json:"reason,omitempty" doc:"Why it was refused, or could not be made."`
	Count         int             `json:"count" doc:"How many connections there were."`
	BytesSent     int64           `json:"bytes_sent" doc:"From the command."`
	BytesReceived int64           `json:"bytes_received" doc:"To the command."`
}

// UserNetworkRule is a domain that a user allows or denies for all their sessions.
type UserNetworkRule struct {
	ID        string             `json:"id" db:"id" doc:"Its id." example:"01KXY0000000000000000000A1"`
	Domain    string             `json:"domain" db:"domain" doc:"As example.org, *.example.org or example.org:8443." example:"*.example.org"`
	Decision  PermissionDecision `json:"decision" db:"decision" enum:"allow,deny" doc:"The decision about the call."`
	CreatedAt time.Time          `json:"created_at" db:"created_at" doc:"Creation time."`
}

// ConnectionsUsable reports whether connections from outside, such as an archive, are ones that
// the service could have recorded.
func ConnectionsUsable(all []Connection) bool {
	return len(all) <= MaxConnections+2 && !slices.ContainsFunc(all, func(c Connection) bool {
		return len(c.Host) > 253 || c.Host != CleanText(c.Host) || len(c.Reason) > 500 || c.Reason != CleanText(c.Reason) ||
			c.Port < 0 || c.Port > 65535 || c.Count < 0 || c.BytesSent < 0 || c.BytesReceived < 0 ||
			c.Decision != ConnectionAllowed && c.Decision != ConnectionRefused
	})
}

// MaxConnections bounds the connections that are recorded with a call; all further ones are
// summed up in one more.
const MaxConnections = 50
