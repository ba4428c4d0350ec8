package sio

import (
	"errors"
	"fmt"

	"github.com/zishang520/engine.io/v2/events"
	"github.com/zishang520/socket.io-go-parser/v2/parser"
)

var (
	errState  = errors.New("packet out of place")
	errBinary = errors.New("unexpected binary data")
	errClosed = errors.New("connection closed")
)

// guardParser replaces the library's parser: its decoder crashes the process on an event
// without payload, and starts a goroutine for each event.
type guardParser struct{}

func (guardParser) NewEncoder() parser.Encoder { return parser.NewEncoder() }
func (guardParser) NewDecoder() parser.Decoder { return &decoder{EventEmitter: events.New()} }

// decoder passes only the packets about joining to the library. Events are added to the
// connection's inbox.
type decoder struct{ events.EventEmitter }

// Add takes one message of the transport. On an error the library closes the connection.
func (d *decoder) Add(data any) error {
	in, ok := data.(*inbound)
	if !ok {
		return errPacket
	}

	err := d.accept(in)
	if err != nil && !errors.Is(err, errClosed) {
		in.session.violation(err)
	}

	return err
}

func (*decoder) Destroy() {}

func (d *decoder) accept(in *inbound) error {
	s := in.session
	if in.binary {
		return s.skipAttachment()
	}

	if s.attachmentsDue() {
		return fmt.Errorf("%w: text between binary parts", errState)
	}

	h, body, err := parseHead(in.data)
	if err != nil {
		return err
	}

	switch h.kind {
	case typeConnect:
		return d.connect(s, h, body)
	case typeConnectError:
		return fmt.Errorf("%w: only a server sends this", errState)
	}

	conn := s.joined()
	if conn == nil || h.namespace != "/" {
		return fmt.Errorf("%w: not connected to %q", errState, h.namespace)
	}

	switch h.kind {
	case typeEvent, typeBinaryEvent:
		ev, err := parseEvent(h, body, s.server.opts.MaxMessage)
		if err != nil {
			return err
		}

		s.expectAttachments(h.attachments)

		if !conn.inbox.put(ev) {
			return errClosed
		}
	case typeBinaryAck:
		s.expectAttachments(h.attachments)
	case typeAck:
		// This server never requests an acknowledgement.
	case typeDisconnect:
		// There is one namespace: leaving it means disconnecting.
		s.close("client namespace disconnect")
	}

	return nil
}

func (d *decoder) connect(s *session, h head, body []byte) error {
	token, err := parseToken(body)
	if err != nil {
		return err
	}
	// The library answers an unknown namespace; only the number of packets is bounded here.
	if err := s.beginConnect(h.namespace); err != nil {
		return err
	}

	d.Emit("decoded", &parser.Packet{
		Type: parser.CONNECT,
		Nsp:  h.namespace,
		Data: map[string]any{"token": token},
	})

	return nil
}
