package sio

import (
	"io"

	"github.com/zishang520/engine.io-go-parser/packet"
)

// separator separates the packets of one polling body.
const separator = 0x1e

// Engine.IO packet types (protocol revision 4), the first byte of a packet.
var (
	packetBytes = map[packet.Type]byte{
		packet.OPEN: '0', packet.CLOSE: '1', packet.PING: '2', packet.PONG: '3',
		packet.MESSAGE: '4', packet.UPGRADE: '5', packet.NOOP: '6',
	}
	packetTypes = map[byte]packet.Type{
		'0': packet.OPEN, '1': packet.CLOSE, '2': packet.PING, '3': packet.PONG,
		'4': packet.MESSAGE, '5': packet.UPGRADE, '6': packet.NOOP,
	}
)

// inbound is one received message on its way through the library to [decoder].
type inbound struct {
	session *session
	data    []byte
	binary  bool
}

// Read implements io.Reader for the library, which passes data on as readers.
func (*inbound) Read([]byte) (int, error) { return 0, io.EOF }

// decodePacket parses one Engine.IO packet. An unknown packet becomes an ERROR packet, on which
// the library closes the session.
func decodePacket(s *session, data []byte, binary bool) *packet.Packet {
	if binary {
		return &packet.Packet{Type: packet.MESSAGE, Data: &inbound{s, data, true}}
	}

	if len(data) > 0 {
		if data[0] == 'b' {
			// Base64 of a binary part, which is rejected: it need not be decoded.
			return &packet.Packet{Type: packet.MESSAGE, Data: &inbound{s, data[1:], true}}
		}

		if kind, ok := packetTypes[data[0]]; ok {
			return &packet.Packet{Type: kind, Data: &inbound{s, data[1:], false}}
		}
	}

	return &packet.Packet{Type: packet.ERROR, Data: &inbound{s, nil, false}}
}

// appendPacket adds an encoded packet to buffer.
func (s *Server) appendPacket(buffer []byte, p *packet.Packet) []byte {
	buffer = append(buffer, packetBytes[p.Type])
	switch data := p.Data.(type) {
	case nil:
	case *frame:
		buffer = data.appendTo(buffer)
	default: // created by the library: the handshake, a namespace's answer
		text, _ := io.ReadAll(data)
		if p.Type == packet.OPEN {
			text = withPingTimeout(text, s.opts.PingTimeout)
		}

		buffer = append(buffer, text...)
	}

	return buffer
}
