// Package sio is the Socket.IO edge: it accepts the official client over HTTP
// long-polling and WebSocket, authenticates it once, and passes its events to
// one [Handler] in order, one at a time for each connection.
//
// It must not depend on the meaning of events: it has no sessions, rooms, sequence
// numbers or error codes of the product, except the faults of a message itself.
//
// It wraps zishang520/socket.io v2.5.0, which without these guards can be crashed by any
// client, loses and reorders events, and has unbounded buffers. The library handles the
// Engine.IO session with its heartbeat, and joining the namespace. This package replaces:
//
//   - both transports (transport_*.go), so that every goroutine that touches
//     bytes of a client recovers, nothing is read before the library has its
//     listeners in place, polling bodies over 64 KiB arrive, and no packet of a
//     batch is dropped;
//   - the packet decoder (decoder.go, packet.go), which validates everything and
//     queues events itself, in order and bounded (inbox.go);
//   - the outbound queue (outbox.go), which the library does not bound;
//   - the upgrade's probe (upgrade.go), whose own version races with a close;
//   - HTTP (http.go), which checks origin, protocol version and body size first,
//     and the hand-off of a connection from Fiber (mount.go, handoff.go).
//
// Connection state recovery is disabled: the library panics with it, and a client resumes
// by sequence number instead.
package sio
