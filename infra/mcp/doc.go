// Package mcp connects sessions with their tool servers (Model Context Protocol) and offers the
// servers' tools to the agent. Servers are untrusted: everything that a server sends is limited
// and sanitised, and every wait for a server has a timeout. The package must not depend on the
// agent loop, the ledger of tool calls or a transport of clients; the launcher confines
// processes.
package mcp
