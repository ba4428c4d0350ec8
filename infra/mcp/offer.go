package mcp

import (
	"context"
	"slices"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/domain/toolserver"
)

// runner runs calls of one tool of a server.
type runner func(ctx context.Context, c *tools.Call) (tools.Result, error)

// makeOffer converts the server's tools to the agent's tools; l.mu must be held.
func (l *link) makeOffer() []tools.Tool {
	return offerOf(l.target.server, l.catalog, func(tool string, acts bool) runner {
		return func(ctx context.Context, c *tools.Call) (tools.Result, error) { return l.call(ctx, c, tool, acts) }
	})
}

// offers reports whether a server's settings allow a tool.
func offers(server domain.MCPServer, tool string) bool {
	if len(server.Tools) > 0 {
		return slices.Contains(server.Tools, tool)
	}

	return !slices.Contains(withheldTools[server.Preset], tool)
}

// offerOf converts the allowed tools of a server's list to the agent's tools. run returns the
// function that executes a tool.
func offerOf(server toolserver.Record, catalog []toolserver.Tool, run func(tool string, acts bool) runner) []tools.Tool {
	offer := []tools.Tool{}

	for _, t := range catalog {
		if !offers(server.MCPServer, t.Name) {
			continue
		}

		tool, err := checker(t.Schema)
		if err != nil {
			continue // was valid when it was listed; the rules may have changed since
		}

		name, title := toolName(server.Name, t.Name), t.Title
		if title == "" {
			title = cleanText(oneLine(t.Name), maxTitle)
		}

		tool.Name, tool.DisplayName = name, server.Name+": "+title

		tool.Spec.Name, tool.Spec.Description = name, t.Description
		if t.Description == "" {
			tool.Spec.Description = "Tool " + cleanText(oneLine(t.Name), maxTitle) + " of the tool server " + server.Name + "."
		}

		tool.Acts = !server.TrustHints || !t.ReadOnly && !t.Idempotent
		tool.Executing = true // plan mode offers built-in tools only
		tool.TimeLimit = timeLimit(server.MCPServer) + pingTime
		tool.Run = run(t.Name, tool.Acts)
		offer = append(offer, tool)
	}

	return offer
}
