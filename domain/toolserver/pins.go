package toolserver

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"everloop/domain"
)

// Pin is the definition of a tool that sessions are offered, and a newer definition that waits
// until the owner of the server accepts it.
type Pin struct {
	Tool       string
	Accepted   *Tool // nil: the tool is new
	Proposed   *Tool // nil: the server lists the accepted one
	ProposedAt *time.Time
}

// Digest returns a digest of all parts of a tool's definition that the service uses.
func (t Tool) Digest() string {
	data, _ := json.Marshal(t)
	sum := sha256.Sum256(data)

	return hex.EncodeToString(sum[:])
}

// Same reports whether two definitions are equal; nil equals only nil.
func (t *Tool) Same(other *Tool) bool {
	if t == nil || other == nil {
		return t == other
	}

	return t.Digest() == other.Digest()
}

// IsPinned reports whether the definitions of the server's tools are pinned. Those of presets
// and of a solution's files are not: the operator installs and configures them.
func (s Record) IsPinned() bool { return s.ID != "" && !s.OfPreset() }

// Pins returns the pins of the tools in a list of the server. It accepts the first list
// unchanged, and a later new tool if the settings of the server name it. Any other difference
// is proposed.
func (s Record) Pins(known []Pin, list []Tool) []Pin {
	pins := make([]Pin, 0, len(list))

	for _, tool := range list {
		pin := Pin{Tool: tool.Name}
		if i := slices.IndexFunc(known, func(p Pin) bool { return p.Tool == tool.Name }); i >= 0 {
			pin = known[i]
		}

		isNew := pin.Accepted == nil

		switch {
		case pin.Accepted.Same(&tool):
			pin.Proposed, pin.ProposedAt = nil, nil
		case len(known) == 0, isNew && slices.Contains(s.Tools, tool.Name):
			pin.Accepted, pin.Proposed, pin.ProposedAt = &tool, nil, nil
		case !pin.Proposed.Same(&tool):
			pin.Proposed, pin.ProposedAt = &tool, nil
		}

		pins = append(pins, pin)
	}

	return pins
}

// SameReceiver reports whether requests in two states of a tool server reach the same address
// or program.
func SameReceiver(a, b domain.MCPServer) bool {
	return a.Transport == b.Transport && a.URL == b.URL && a.Command == b.Command && a.Preset == b.Preset && slices.Equal(a.Args, b.Args)
}
