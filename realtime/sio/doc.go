// Package sio is the Socket.IO edge: it accepts the official client over HTTP
// long-polling and WebSocket, authenticates it once, and passes its events to
// one [Handler] in the order they came, one at a time for a connection.
//
// It must not know what an event means: no sessions, rooms, sequence numbers
// or error vocabulary of the product beyond the faults of a message itself.
//
// Below it is zishang520/socket.io v2.5.0, which without these guards can be crashed by
// anyone who can reach the port, loses and reorders events, and grows without
// bound. What the library keeps: the Engine.IO session with its heartbeat, and
// joining the namespace. What this package takes from it:
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
// Connection state recovery stays off: the library panics when it is on, and a
// client resumes by sequence number instead.
package sio
