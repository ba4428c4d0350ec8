package sio

import (
	"encoding/json"
	"time"
)

// libraryPingTimeout disables the library's ping timeout. The library starts to wait for a pong
// only after it has sent the ping: on a busy machine the pong may arrive before that, and the
// library would close a client that has answered.
const libraryPingTimeout = 100 * 365 * 24 * time.Hour

// withPingTimeout returns the library's handshake with the effective timeout.
func withPingTimeout(handshake []byte, timeout time.Duration) []byte {
	var fields map[string]any
	if json.Unmarshal(handshake, &fields) != nil {
		return handshake
	}

	fields["pingTimeout"] = timeout.Milliseconds()

	changed, err := json.Marshal(fields)
	if err != nil {
		return handshake
	}

	return changed
}

// watchHeartbeat closes the session of a client that has sent no packet for longer than a live
// client, which answers each ping, can be silent.
func (s *session) watchHeartbeat() {
	silence := s.server.opts.PingInterval + s.server.opts.PingTimeout
	timer := time.AfterFunc(silence, func() { s.close("ping timeout") })
	_ = s.engine.On("packet", func(...any) { timer.Reset(silence) })
	_ = s.engine.Once("close", func(...any) { timer.Stop() })
}
