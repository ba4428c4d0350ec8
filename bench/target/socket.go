package target

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// Socket is the least of a Socket.IO client (Engine.IO 4 over WebSocket) that
// can follow a session and send to it.
type Socket struct {
	conn *websocket.Conn
	acks int
}

// Connect opens a socket with the key of the client.
func (c *Client) Connect(ctx context.Context) (*Socket, error) {
	url := "ws" + strings.TrimPrefix(c.Base, "http") + "/socket.io/?EIO=4&transport=websocket"

	conn, response, err := websocket.DefaultDialer.DialContext(ctx, url, http.Header{})
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}

	_ = response.Body.Close()
	s := &Socket{conn: conn}

	auth, err := json.Marshal(map[string]string{"token": c.Key})
	if err != nil {
		return nil, err
	}

	if err := s.write("40" + string(auth)); err != nil {
		return nil, err
	}

	return s, s.until(func(frame string) (bool, error) {
		if strings.HasPrefix(frame, "44") {
			return false, fmt.Errorf("socket: refused: %s", frame)
		}

		return strings.HasPrefix(frame, "40"), nil
	})
}

// Close closes the connection.
func (s *Socket) Close() { _ = s.conn.Close() }

func (s *Socket) write(frame string) error {
	return s.conn.WriteMessage(websocket.TextMessage, []byte(frame))
}

// until reads frames until one is the last wanted; it answers pings.
func (s *Socket) until(last func(frame string) (bool, error)) error {
	for {
		if err := s.conn.SetReadDeadline(time.Now().Add(Patience)); err != nil {
			return err
		}

		_, data, err := s.conn.ReadMessage()
		if err != nil {
			return fmt.Errorf("socket: %w", err)
		}

		frame := string(data)
		if frame == "2" {
			if err := s.write("3"); err != nil {
				return err
			}

			continue
		}

		if done, err := last(frame); done || err != nil {
			return err
		}
	}
}

// emit sends an event that wants an acknowledgement and gives its number.
func (s *Socket) emit(name string, body any) (int, error) {
	payload, err := json.Marshal([]any{name, body})
	if err != nil {
		return 0, err
	}

	s.acks++

	return s.acks, s.write(fmt.Sprintf("42%d%s", s.acks, payload))
}

// Subscribe follows a session.
func (s *Socket) Subscribe(session string) error {
	id, err := s.emit("session:subscribe", map[string]string{"session_id": session})
	if err != nil {
		return err
	}

	return s.until(func(frame string) (bool, error) {
		acked := strings.HasPrefix(frame, fmt.Sprintf("43%d[", id))
		if acked && !strings.Contains(frame, `"ok":true`) {
			return false, fmt.Errorf("socket: subscribe: %s", frame)
		}

		return acked, nil
	})
}

// Chat sends a message to a session that the socket follows and reads to
// chat:end. acked is when the message was promised to be durable.
func (s *Socket) Chat(session, message string) (seen *Chat, acked time.Time, err error) {
	seen = &Chat{Sent: time.Now()}

	id, err := s.emit("chat:send", map[string]string{"session_id": session, "message": message})
	if err != nil {
		return nil, acked, err
	}

	ack := fmt.Sprintf("43%d[", id)
	err = s.until(func(frame string) (bool, error) {
		if strings.HasPrefix(frame, ack) {
			acked = time.Now()

			if !strings.Contains(frame, `"ok":true`) {
				return false, fmt.Errorf("socket: chat:send: %s", frame)
			}

			return !seen.Ended.IsZero(), nil
		}

		payload, found := strings.CutPrefix(frame, "42")
		if !found || !seen.Ended.IsZero() {
			return false, nil
		}

		e := &Event{At: time.Now()}
		if err := json.Unmarshal([]byte(payload), &[]any{&e.Name, &e.Body}); err != nil {
			return false, fmt.Errorf("socket: %w", err)
		}

		seen.add(e)

		return !seen.Ended.IsZero() && !acked.IsZero(), nil
	})

	return seen, acked, err
}
