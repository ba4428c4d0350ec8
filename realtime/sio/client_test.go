package sio_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// rawClient speaks the protocol by hand over either transport.
type rawClient interface {
	// send sends one Engine.IO packet.
	send(packet string) error
	// receive returns the next Engine.IO packet.
	receive(timeout time.Duration) (string, error)
	close()
}

func socketURL(scheme, addr, query string) string {
	return scheme + "://" + addr + "/socket.io/?EIO=4&" + query
}

type wsClient struct{ conn *websocket.Conn }

func dialWS(addr, sid string) (*wsClient, error) {
	query := "transport=websocket"
	if sid != "" {
		query += "&sid=" + url.QueryEscape(sid)
	}

	dialer := websocket.Dialer{HandshakeTimeout: patience}

	conn, response, err := dialer.Dial(socketURL("ws", addr, query), nil)
	if response != nil {
		_ = response.Body.Close()
	}

	if err != nil {
		return nil, err
	}

	return &wsClient{conn}, nil
}

func (c *wsClient) send(packet string) error {
	return c.conn.WriteMessage(websocket.TextMessage, []byte(packet))
}

func (c *wsClient) receive(timeout time.Duration) (string, error) {
	_ = c.conn.SetReadDeadline(time.Now().Add(timeout))
	_, data, err := c.conn.ReadMessage()

	return string(data), err
}

func (c *wsClient) close() { _ = c.conn.Close() }

type pollClient struct {
	http    *http.Client
	addr    string
	sid     string
	pending []string
}

func dialPoll(addr string) (*pollClient, error) {
	c := &pollClient{addr: addr, http: &http.Client{Transport: &http.Transport{}}}

	first, err := c.receive(patience)
	if err != nil {
		return nil, err
	}

	var open struct{ Sid string }
	if len(first) == 0 || json.Unmarshal([]byte(first[1:]), &open) != nil || open.Sid == "" {
		return nil, fmt.Errorf("no handshake in %q", first)
	}

	c.sid = open.Sid

	return c, nil
}

func (c *pollClient) url() string {
	query := "transport=polling"
	if c.sid != "" {
		query += "&sid=" + url.QueryEscape(c.sid)
	}

	return socketURL("http", c.addr, query)
}

func (c *pollClient) send(packet string) error {
	status, body, err := c.post("text/plain;charset=UTF-8", strings.NewReader(packet))
	if err == nil && (status != 200 || body != "ok") {
		err = fmt.Errorf("post: %d %s", status, body)
	}

	return err
}

func (c *pollClient) post(contentType string, body io.Reader) (int, string, error) {
	response, err := c.http.Post(c.url(), contentType, body)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()

	text, err := io.ReadAll(response.Body)

	return response.StatusCode, string(text), err
}

func (c *pollClient) receive(timeout time.Duration) (string, error) {
	if len(c.pending) == 0 {
		client := *c.http
		client.Timeout = timeout

		response, err := client.Get(c.url())
		if err != nil {
			return "", err
		}
		defer response.Body.Close()

		text, err := io.ReadAll(response.Body)
		if err != nil {
			return "", err
		}

		if response.StatusCode != 200 {
			return "", fmt.Errorf("poll: %d %s", response.StatusCode, text)
		}

		for _, packet := range bytes.Split(text, []byte{0x1e}) {
			c.pending = append(c.pending, string(packet))
		}
	}

	first := c.pending[0]
	c.pending = c.pending[1:]

	return first, nil
}

func (c *pollClient) close() { c.http.CloseIdleConnections() }

// dial opens a session on the transport that is asked for.
func dial(addr, transport string) (rawClient, error) {
	if transport == "polling" {
		return dialPoll(addr)
	}

	c, err := dialWS(addr, "")
	if err != nil {
		return nil, err
	}

	if open, err := c.receive(patience); err != nil || !strings.HasPrefix(open, "0{") {
		return nil, fmt.Errorf("no handshake: %q %v", open, err)
	}

	return c, nil
}

// await returns the first packet that starts with prefix, answering pings.
func await(c rawClient, prefix string, timeout time.Duration) (string, error) {
	deadline := time.Now().Add(timeout)
	for time.Now().Before(deadline) {
		packet, err := c.receive(time.Until(deadline))
		if err != nil {
			return "", err
		}

		if packet == "2" {
			_ = c.send("3")
		}

		if strings.HasPrefix(packet, prefix) {
			return packet, nil
		}
	}

	return "", fmt.Errorf("no packet %q", prefix)
}

// join opens a session and connects with a good token.
func join(addr, transport string) (rawClient, error) {
	c, err := dial(addr, transport)
	if err != nil {
		return nil, err
	}

	if err := c.send(`40{"token":"` + goodToken + `"}`); err != nil {
		return nil, err
	}

	_, err = await(c, `40{"sid":`, patience)

	return c, err
}
