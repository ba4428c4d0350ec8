// Package mcp connects sessions with their tool servers (Model Context Protocol)
// and offers the servers' tools to the agent. Servers are untrusted: whatever
// a server sends is bounded, cleaned and cut, and whatever it does not do is not waited
// for. The package must not know the agent loop, the ledger of tool calls or a
// transport of clients; how a process is confined is the launcher's business.
package mcp
