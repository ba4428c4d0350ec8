package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"everloop/activities/tools"
	"everloop/domain/toolserver"
)

// pinned returns the tools of a list whose definitions the owner of the server has accepted,
// and names the others.
func (m *Manager) pinned(
	ctx context.Context, server toolserver.Record, list []toolserver.Tool,
) (accepted []toolserver.Tool, withheld string, err error) {
	if !server.IsPinned() {
		return list, "", nil
	}

	pins, err := m.Store.PinMCPTools(ctx, server, list)
	if err != nil {
		return nil, "", fmt.Errorf("its tools cannot be compared with the accepted ones: %w", err)
	}

	var names []string

	for i, pin := range pins {
		switch {
		case pin.Proposed == nil:
			accepted = append(accepted, list[i])
		case !offers(server.MCPServer, pin.Tool):
		case pin.Accepted == nil:
			names = append(names, cleanText(oneLine(pin.Tool), maxTitle)+" (new)")
		default:
			names = append(names, cleanText(oneLine(pin.Tool), maxTitle)+" (changed)")
		}
	}

	slices.Sort(names)

	return accepted, strings.Join(names, ", "), nil
}

// withheldNote returns which tools wait for acceptance; empty: none.
func withheldNote(names string) string {
	if names == "" {
		return ""
	}

	return "not offered until the owner of the tool server accepts their definitions: " + names
}

// Notes implements tools.Noter: the tools of the session's servers that wait for acceptance.
func (m *Manager) Notes(s tools.Scope) []string {
	m.mu.Lock()
	defer m.mu.Unlock()

	var notes []string

	for key, l := range m.links {
		if key.session != s.Session.ID {
			continue
		}

		l.mu.Lock()
		if l.withheld != "" {
			notes = append(notes, fmt.Sprintf("Tools of the tool server %s are %s.", key.server, withheldNote(l.withheld)))
		}
		l.mu.Unlock()
	}

	slices.Sort(notes)

	return notes
}
