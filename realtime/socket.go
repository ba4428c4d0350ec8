package realtime

import (
	"encoding/json"

	"everloop/domain"
	"everloop/realtime/sio"
)

// SocketHandler handles the protocol over the Socket.IO transport.
func (p *Protocol) SocketHandler() sio.Handler { return socketHandler{p} }

type socketHandler struct{ protocol *Protocol }

func (h socketHandler) Connected(c *sio.Conn) { h.protocol.Connected(c) }

func (h socketHandler) Event(c *sio.Conn, name string, payload json.RawMessage, ack func(v any)) {
	h.protocol.Event(c, name, payload, ack)
}

func (h socketHandler) Malformed(c *sio.Conn, event string, fault sio.Fault, ack func(v any)) {
	code := domain.CodeInvalidRequest

	switch fault.Code {
	case sio.FaultTooLarge:
		code = domain.CodeMessageTooLarge
	case sio.FaultReserved, sio.FaultEventName:
		code = domain.CodeUnknownEvent
	}

	h.protocol.Malformed(c, event, code, fault.Message, ack)
}

func (h socketHandler) Disconnected(c *sio.Conn, _ string) { h.protocol.Disconnected(c) }
