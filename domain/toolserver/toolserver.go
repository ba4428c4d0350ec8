// Package toolserver contains the configured servers of the Model Context Protocol, and decides
// which of them a session uses. It does not implement the protocol: infra/mcp connects.
package toolserver

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"everloop/domain"
)

// Scope is the set of sessions that a tool server is configured for.
type Scope string

// A server of a session overrides a server of its solution with the same name, which overrides
// a server of the service.
const (
	OfService  Scope = "service"
	OfSolution Scope = "solution"
	OfSession  Scope = "session"
)

// How a tool server is reached: as a process in the session's sandbox, or by
// streamable HTTP.
const (
	Stdio = "stdio"
	HTTP  = "http"
)

// BrowserPreset is the preset of a tool server that the service starts itself: a browser of the
// session, in its sandbox and in its network.
const BrowserPreset = "browser"

// DefaultTimeout is the default time limit of one call, in seconds.
const DefaultTimeout = 60

// CodeNotFound is the code of a tool server that does not exist.
const CodeNotFound = "mcp_server_not_found"

// Record is a stored tool server. The values of Env and Headers are secrets: they are sent to
// the server and are never part of an API response.
type Record struct {
	domain.MCPServer
	ID         string
	Scope      Scope
	SolutionID *string // of the scope solution: for its owner's sessions, or all users' when an administrator created it
	SessionID  *domain.SessionID
	OwnerID    string // who created it
	// Trusted reports that an administrator created it, so that it can be on the service's own
	// network.
	Trusted bool
	// TrustHints reports that the server's annotations are trusted: its tools that only read,
	// or can be called again, are retried.
	TrustHints bool
	Sealed     []byte // Env and Headers, encrypted
	// ProposedTools is the number of tools whose definition waits for acceptance.
	ProposedTools int
	CreatedAt     time.Time
	UpdatedAt     time.Time
}

// OfSession reports that the server belongs to one session, and so to its owner. Servers of
// solutions and of the service are shared by sessions that do not trust each other.
func (s Record) OfSession() bool { return s.Scope == OfSession }

// PresetFault returns the field of a server's settings that conflicts with its preset, and why;
// empty: there is no preset, or all fields are compatible.
func PresetFault(s domain.MCPServer) (field, why string) {
	switch {
	case !s.OfPreset():
		return "", ""
	case s.Preset != BrowserPreset:
		return "preset", "must be " + BrowserPreset
	case s.Transport != Stdio:
		return "transport", "of a server of a preset is stdio"
	case s.Command != "":
		return "command", "is known from the preset"
	case len(s.Args) > 0:
		return "args", "are known from the preset"
	case len(s.Env) > 0:
		return "env", "a server of a preset has no variables"
	case s.URL != "":
		return "url", "a server of a preset has no address"
	case len(s.Headers) > 0:
		return "headers", "a server of a preset has no headers"
	}

	return "", ""
}

// Status is the state of a session's connection with a tool server.
type Status string

// The states of a connection.
const (
	Connecting Status = "connecting"
	Connected  Status = "connected"
	Failed     Status = "failed"
)

// Connection is the last known state of a session's connection with a tool server. It outlives
// the process of the connection, so that the tools are available before the server responds
// again.
type Connection struct {
	SessionID   domain.SessionID
	Name        string // of the server
	Fingerprint string // of the configuration of the connection, without secrets
	Status      Status
	Error       string
	Tools       []Tool
	UpdatedAt   time.Time
}

// Tool is one tool of a server, with cleaned and shortened texts.
type Tool struct {
	Name        string          `json:"name"` // the server's name of it
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema"`
	ReadOnly    bool            `json:"read_only,omitempty"`
	Idempotent  bool            `json:"idempotent,omitempty"`
}

// WithConfigured adds the servers of a session's profile, which an operator configured: they
// take precedence over the service's records of the same name, and not over records of the
// solution or the session.
func WithConfigured(servers []Record, profile []domain.MCPServer) []Record {
	servers = slices.Clone(servers)

	for _, configured := range profile {
		if !serverName.MatchString(configured.Name) {
			continue
		}

		record := Record{MCPServer: configured, Scope: OfSolution, Trusted: true, TrustHints: true}

		i := slices.IndexFunc(servers, func(s Record) bool { return s.Name == configured.Name })
		switch {
		case i < 0:
			servers = append(servers, record)
		case servers[i].Scope == OfService:
			servers[i] = record
		}
	}

	slices.SortStableFunc(servers, func(a, b Record) int { return strings.Compare(a.Name, b.Name) })

	return servers
}

// MaxOfSession bounds the tool servers of one session.
const MaxOfSession = 32

// Used returns the tool servers that a session uses, and those above the limit: the widest
// scopes are dropped first, and within one scope the last by name. Disabled servers are in
// neither list.
func Used(servers []Record) (used, left []Record) {
	scopes := []Scope{OfSession, OfSolution, OfService}

	for _, s := range servers {
		if s.Enabled {
			used = append(used, s)
		}
	}

	slices.SortStableFunc(used, func(a, b Record) int {
		return cmp.Or(cmp.Compare(slices.Index(scopes, a.Scope), slices.Index(scopes, b.Scope)), strings.Compare(a.Name, b.Name))
	})

	if len(used) > MaxOfSession {
		used, left = used[:MaxOfSession], used[MaxOfSession:]
	}

	slices.SortFunc(used, func(a, b Record) int { return strings.Compare(a.Name, b.Name) })

	return used, left
}

var serverName = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)

// Effective returns the servers that apply to a session, by name: of several with one name the
// one of the closest scope, the session owner's before an administrator's.
func Effective(servers []Record, sessionOwner string) []Record {
	rank := func(s Record) int {
		switch {
		case s.Scope == OfSession:
			return 3
		case s.Scope == OfSolution && s.OwnerID == sessionOwner:
			return 2
		case s.Scope == OfSolution:
			return 1
		default:
			return 0
		}
	}
	sorted := slices.Clone(servers)
	slices.SortFunc(sorted, func(a, b Record) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(rank(b), rank(a)), strings.Compare(a.ID, b.ID))
	})

	return slices.CompactFunc(sorted, func(a, b Record) bool { return a.Name == b.Name })
}
