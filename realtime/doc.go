// Package realtime lets clients follow sessions as they happen: rooms over the
// event log, subscriptions that resume without a gap or a repeat, and the
// client events of docs/events.md. A [Hub] serves every transport; a
// [Protocol] speaks the client events over Socket.IO.
//
// It must not know the engine behind the log, how records are kept, or what a
// chat does with a message: those are the ports in ports.go.
package realtime
