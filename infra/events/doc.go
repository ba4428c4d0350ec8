// Package events is the event log of all sessions and the fast signals between processes, on
// NATS: JetStream for durable, ordered and numbered events, core NATS for signals that can be
// lost.
//
// One stream contains all sessions (docs/architecture.md#sequence-numbers). A session has two
// subjects: `events.<session_id>` for the flow of its events and `events.<session_id>.edge` for
// `turn:start` and `turn:end` alone, so that the open turns at a position are found without
// reading their content. The stream's sequence is the `seq` of events; a new stream starts at the
// Unix time in microseconds, so that numbers grow even after the loss of a stream. A stream that
// lost its tail is closed and stays readable until its events have expired; the next stream is a
// new generation of the log.
//
// The package must not depend on the meaning of events, on permissions, or on the followers of a
// session.
package events
