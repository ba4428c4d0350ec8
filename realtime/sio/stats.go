package sio

import "sync/atomic"

// Stats are counters since the start, but for Open and Joined.
type Stats struct {
	Open        int64 // sessions now, joined or not
	Joined      int64 // authenticated connections now
	Connections int64 // sessions opened
	Refused     int64 // tokens refused
	Violations  int64 // sessions closed because the client broke the protocol
	EventsIn    int64
	EventsOut   int64
	Malformed   int64 // events answered with a [Fault]
	Overflows   int64 // events that [Conn.Emit] did not queue
	Panics      int64 // caught
}

type counters struct {
	open, joined, connections, refused, violations, eventsIn, eventsOut, malformed, overflows, panics atomic.Int64
}

// Stats returns the counters.
func (s *Server) Stats() Stats {
	c := &s.stats

	return Stats{
		Open: c.open.Load(), Joined: c.joined.Load(), Connections: c.connections.Load(),
		Refused: c.refused.Load(), Violations: c.violations.Load(),
		EventsIn: c.eventsIn.Load(), EventsOut: c.eventsOut.Load(), Malformed: c.malformed.Load(),
		Overflows: c.overflows.Load(), Panics: c.panics.Load(),
	}
}
