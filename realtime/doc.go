// Package realtime streams sessions to clients: rooms over the event log, subscriptions that
// resume without gaps or duplicates, and the client events of docs/events.md. A [Hub] serves
// every transport; a [Protocol] handles the client events over Socket.IO.
//
// It must not depend on the engine of the log, on how records are stored, or on what a chat
// does with a message: ports.go declares these as ports.
package realtime
