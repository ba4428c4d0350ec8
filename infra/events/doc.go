// Package events is the event log of all sessions and the fast signals between
// processes, on NATS: JetStream for what must be kept, in order and numbered,
// core NATS for what may be lost.
//
// One stream holds everything (docs/architecture.md#sequence-numbers). A session has two
// subjects: `events.<session_id>` for the flow of its events and
// `events.<session_id>.edge` for `turn:start` and `turn:end` alone, so that the
// turns open at any position are found without reading what they said. The
// stream's sequence is the `seq` of events; a new stream starts at
// the microseconds since 1970, so that numbers grow even when a stream was lost. A
// stream that lost its tail is closed and read until its events have aged; the next
// one is another generation of the log.
//
// The package must not know what an event means, who may read it, or who
// follows a session.
package events
