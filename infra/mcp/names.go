package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxToolName is the maximum length of a function name in model APIs.
const maxToolName = 64

// toolName returns the model's name of a server's tool: mcp__{server}__{tool} (docs/mcp.md). A
// name that had to be changed to fit, or that is ambiguous with another server's, ends with a
// digest of the original, so that names are unique and stable.
func toolName(server, tool string) string {
	safe := safeName(tool)

	name := "mcp__" + server + "__" + safe
	if safe == tool && len(name) <= maxToolName && !strings.Contains(server, "__") && !strings.HasSuffix(server, "_") {
		return name
	}

	sum := sha256.Sum256([]byte(server + "\x00" + tool))
	suffix := "_" + hex.EncodeToString(sum[:4])

	const room = maxToolName - len("mcp____") - len("_00000000")

	server = server[:min(len(server), room-min(len(safe), room/2))]

	return "mcp__" + server + "__" + safe[:min(len(safe), room-len(server))] + suffix
}

// safeName replaces characters that model APIs reject in a name.
func safeName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		default:
			return '_'
		}
	}, name)
}
