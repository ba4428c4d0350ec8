package sio

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Socket.IO packet types (protocol revision 5), the first byte of a packet.
const (
	typeConnect      = '0'
	typeDisconnect   = '1'
	typeEvent        = '2'
	typeAck          = '3'
	typeConnectError = '4'
	typeBinaryEvent  = '5'
	typeBinaryAck    = '6'
)

// reservedEvents are reserved by the protocol: clients cannot send them and servers must not
// emit them.
var reservedEvents = map[string]bool{
	"connect": true, "connect_error": true, "disconnect": true, "disconnecting": true,
}

// head is the part of a packet before its JSON.
type head struct {
	kind        byte
	attachments int
	namespace   string
	hasID       bool
	id          uint64
}

// event is an EVENT packet. fault is set for an invalid one; then payload is nil.
type event struct {
	name    string
	payload json.RawMessage
	hasID   bool
	id      uint64
	size    int
	fault   *Fault
}

var errPacket = errors.New("malformed packet")

// parseHead parses `<type>[<attachments>-][/<namespace>,][<id>]` and returns the rest.
func parseHead(data []byte) (head, []byte, error) {
	h := head{namespace: "/"}
	if len(data) == 0 || data[0] < typeConnect || data[0] > typeBinaryAck {
		return h, nil, fmt.Errorf("%w: unknown type", errPacket)
	}

	h.kind, data = data[0], data[1:]

	if h.kind == typeBinaryEvent || h.kind == typeBinaryAck {
		n := digits(data)
		if n == 0 || n > 4 || n >= len(data) || data[n] != '-' {
			return h, nil, fmt.Errorf("%w: attachments", errPacket)
		}

		h.attachments, _ = strconv.Atoi(string(data[:n]))
		if h.attachments > maxAttachments {
			return h, nil, fmt.Errorf("%w: %d attachments", errPacket, h.attachments)
		}

		data = data[n+1:]
	}

	if len(data) > 0 && data[0] == '/' {
		window := data[:min(len(data), maxEventName)]

		end := bytes.IndexByte(window, ',')
		switch {
		case end >= 0:
			h.namespace, data = string(window[:end]), data[end+1:]
		case len(window) == len(data):
			h.namespace, data = string(window), nil
		default:
			return h, nil, fmt.Errorf("%w: namespace too long", errPacket)
		}

		if !utf8.ValidString(h.namespace) {
			return h, nil, fmt.Errorf("%w: namespace", errPacket)
		}
	}

	if n := digits(data); n > 0 {
		id, err := strconv.ParseUint(string(data[:min(n, 21)]), 10, 64)
		if err != nil || n > 20 {
			return h, nil, fmt.Errorf("%w: acknowledgement id", errPacket)
		}

		h.hasID, h.id, data = true, id, data[n:]
	}

	return h, data, nil
}

func digits(data []byte) int {
	n := 0
	for n < len(data) && data[n] >= '0' && data[n] <= '9' {
		n++
	}

	return n
}

// parseEvent parses `["name", {…}]` of an EVENT or BINARY_EVENT. It returns an error only for a
// message that violates the protocol, so that it cannot even be answered; anything else is a
// fault of the event.
func parseEvent(h head, body []byte, maxMessage int64) (event, error) {
	ev := event{hasID: h.hasID, id: h.id, size: len(body)}

	name, rest, err := eventName(body)
	if err != nil {
		return ev, err
	}

	ev.name = name
	switch {
	case int64(len(body)) > maxMessage:
		// Not parsed further: an error follows in any case.
		ev.fault = &Fault{FaultTooLarge, fmt.Sprintf("the message is larger than %d bytes", maxMessage)}
		return ev, nil
	case h.kind == typeBinaryEvent:
		ev.fault = &Fault{FaultBinary, "binary parts are not supported: send base64 text"}
		return ev, nil
	case reservedEvents[name]:
		ev.fault = &Fault{FaultReserved, "the name of this event is reserved by the protocol"}
		return ev, nil
	case name == "" || len(name) > maxEventName:
		ev.name = ""
		ev.fault = &Fault{FaultEventName, fmt.Sprintf("the name of an event has 1 to %d bytes", maxEventName)}

		return ev, nil
	}

	if depth(body) > maxDepth {
		ev.fault = &Fault{FaultTooDeep, fmt.Sprintf("the payload nests deeper than %d levels", maxDepth)}
		return ev, nil
	}

	if !utf8.Valid(body) || !json.Valid(body) {
		return ev, fmt.Errorf("%w: not JSON", errPacket)
	}

	ev.payload, ev.fault = payload(rest)

	return ev, nil
}

// eventName parses the first element of the array, which must be a string, and returns the
// rest. The array may be malformed after that.
func eventName(body []byte) (string, []byte, error) {
	body = bytes.TrimLeft(body, " \t\r\n")
	if len(body) == 0 || body[0] != '[' {
		return "", nil, fmt.Errorf("%w: an event is an array", errPacket)
	}

	body = bytes.TrimLeft(body[1:], " \t\r\n")
	if len(body) == 0 || body[0] != '"' {
		return "", nil, fmt.Errorf("%w: an event starts with its name", errPacket)
	}

	end := stringEnd(body)
	if end < 0 {
		return "", nil, fmt.Errorf("%w: unfinished name", errPacket)
	}

	var name string

	if end > 6*maxEventName+2 { // longer than any escaping of a name that is allowed
		return "", body[end:], nil
	}

	if !utf8.Valid(body[:end]) || json.Unmarshal(body[:end], &name) != nil {
		return "", nil, fmt.Errorf("%w: the name is not a string", errPacket)
	}

	return name, body[end:], nil
}

// payload returns the argument in `, {…}]`, which must be valid JSON.
func payload(rest []byte) (json.RawMessage, *Fault) {
	rest = bytes.TrimLeft(rest, " \t\r\n")
	if rest[0] == ']' {
		return nil, nil
	}

	rest = bytes.TrimLeft(rest[1:], " \t\r\n")
	end := valueEnd(rest)

	arg := bytes.TrimRight(rest[:end], " \t\r\n")
	if rest[end] != ']' {
		return nil, &Fault{FaultArguments, "an event has one payload"}
	}

	switch {
	case string(arg) == "null":
		return nil, nil
	case arg[0] != '{':
		return nil, &Fault{FaultNotObject, "the payload of an event is a JSON object"}
	}

	return json.RawMessage(arg), nil
}

// valueEnd returns the index of the ',' or ']' that ends the first value of data.
func valueEnd(data []byte) int {
	level := 0

	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i += stringEnd(data[i:]) - 1
		case '{', '[':
			level++
		case '}':
			level--
		case ']':
			if level == 0 {
				return i
			}

			level--
		case ',':
			if level == 0 {
				return i
			}
		}
	}

	return len(data) - 1
}

// depth returns the nesting of data, which may be malformed.
func depth(data []byte) int {
	level, deepest := 0, 0

	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			end := stringEnd(data[i:])
			if end < 0 {
				return deepest
			}

			i += end - 1
		case '{', '[':
			level++
			deepest = max(deepest, level)
		case '}', ']':
			level--
		}
	}

	return deepest
}

// stringEnd returns the index after the closing quote of the JSON string that data starts with,
// or -1.
func stringEnd(data []byte) int {
	for i := 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}

	return -1
}

// parseToken parses the auth object of a CONNECT packet. A missing object means no token.
func parseToken(body []byte) (string, error) {
	if len(body) == 0 {
		return "", nil
	}

	if body[0] != '{' || depth(body) > maxDepth || !utf8.Valid(body) {
		return "", fmt.Errorf("%w: auth is not an object", errPacket)
	}

	var auth struct {
		Token any `json:"token"`
	}
	if json.Unmarshal(body, &auth) != nil {
		return "", fmt.Errorf("%w: auth is not an object", errPacket)
	}

	token, _ := auth.Token.(string)

	return token, nil
}
