package sio_test

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// request sends raw bytes and returns the first line of the answer, if any
// comes in time.
func request(t *testing.T, addr, raw string, within time.Duration) string {
	t.Helper()

	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)

	defer conn.Close()

	_, _ = conn.Write([]byte(raw)) // the server may close before it has read all
	_ = conn.SetReadDeadline(time.Now().Add(within))
	line, _ := bufio.NewReader(conn).ReadString('\n')

	return strings.TrimSpace(line)
}

const wsHeaders = "Host: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

// requests are HTTP requests as a whole and how the status line of the answer starts.
var requests = map[string][2]string{
	"no query":              {"GET /socket.io/ HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400"},
	"no transport":          {"GET /socket.io/?EIO=4 HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400"},
	"unknown transport":     {"GET /socket.io/?EIO=4&transport=smoke HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400"},
	"webtransport":          {"GET /socket.io/?EIO=4&transport=webtransport HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400"},
	"protocol 3":            {"GET /socket.io/?EIO=3&transport=polling HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400"},
	"protocol 3, websocket": {"GET /socket.io/?EIO=3&transport=websocket HTTP/1.1\r\n" + wsHeaders + "\r\n", "HTTP/1.1 400"},
	"protocol 99":           {"GET /socket.io/?EIO=99&transport=polling HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400"},
	"jsonp":                 {"GET /socket.io/?EIO=4&transport=polling&j=0 HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400"},
	"unknown sid":           {"GET /socket.io/?EIO=4&transport=polling&sid=abc HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400"},
	"sid of 3 KB": {
		"GET /socket.io/?EIO=4&transport=polling&sid=" + strings.Repeat("a", 3000) + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"HTTP/1.1 400",
	},
	"sid of bad UTF-8":     {"GET /socket.io/?EIO=4&transport=polling&sid=%ff%fe HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400"},
	"unknown sid, upgrade": {"GET /socket.io/?EIO=4&transport=websocket&sid=abc HTTP/1.1\r\n" + wsHeaders + "\r\n", "HTTP/1.1 400"},
	"handshake by POST": {
		"POST /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n40",
		"HTTP/1.1 400",
	},
	"handshake by DELETE":   {"DELETE /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400"},
	"OPTIONS":               {"OPTIONS /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 204"},
	"websocket without one": {"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400"},
	"polling with upgrade":  {"GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\n" + wsHeaders + "\r\n", "HTTP/1.1 400"},
	"websocket version 1": {"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n" +
		"Connection: Upgrade\r\nSec-WebSocket-Version: 1\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", "HTTP/1.1 400"},
	"websocket without key": {"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n" +
		"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\r\n", "HTTP/1.1 400"},
	"a page of another site": {
		"GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: x\r\nOrigin: https://evil.example\r\n\r\n",
		"HTTP/1.1 403",
	},
	"origin null": {"GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: x\r\nOrigin: null\r\n\r\n", "HTTP/1.1 403"},
	"another site, websocket": {
		"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nOrigin: https://evil.example\r\n" + wsHeaders + "\r\n",
		"HTTP/1.1 403",
	},
	"the same site": {"GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: x\r\nOrigin: http://x\r\n\r\n", "HTTP/1.1 200"},
	"an allowed site": {
		"GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: x\r\nOrigin: " + foreignOrigin + "\r\n\r\n",
		"HTTP/1.1 200",
	},
	"path below":     {"GET /socket.io/socket.io.js HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404"},
	"path with dots": {"GET /socket.io/../socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: x\r\n\r\n", ""},
	"length too long": {
		"POST /socket.io/?EIO=4&transport=polling&sid=a HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n40",
		"HTTP/1.1 413",
	},
	"length negative": {
		"POST /socket.io/?EIO=4&transport=polling&sid=a HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n40",
		"HTTP/1.1 400",
	},
	"length and chunks": {
		"POST /socket.io/?EIO=4&transport=polling&sid=a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"2\r\n40\r\n0\r\n\r\n",
		"HTTP/1.1 400",
	},
	"length too short": {
		"POST /socket.io/?EIO=4&transport=polling&sid=a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n40GET / HTTP/1.1\r\n\r\n",
		"HTTP/1.1 400",
	},
	"body not sent": {"POST /socket.io/?EIO=4&transport=polling&sid=a HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n40", ""},
	"chunks, unknown sid": {
		"POST /socket.io/?EIO=4&transport=polling&sid=a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n40\r\n0\r\n\r\n",
		"HTTP/1.1 400",
	},
	"chunk size no number": {
		"POST /socket.io/?EIO=4&transport=polling&sid=a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n40\r\n",
		"HTTP/1.1 400",
	},
	"expect continue": {
		"POST /socket.io/?EIO=4&transport=polling&sid=a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n40",
		"HTTP/1.1 100",
	},
	"two requests at once": {
		"GET /socket.io/?EIO=4&transport=smoke HTTP/1.1\r\nHost: x\r\n\r\nGET /ping HTTP/1.1\r\nHost: x\r\n\r\n",
		"HTTP/1.1 400",
	},
}

func TestMalformedRequests(t *testing.T) {
	server := startChild(t)

	watcher := startWitness(t, server.addr)
	for name, r := range requests {
		t.Run(name, func(t *testing.T) {
			within := patience
			if r[1] == "" { // there need not be an answer
				within = 500 * time.Millisecond
			}

			line := request(t, server.addr, r[0], within)
			require.True(t, strings.HasPrefix(line, r[1]), "answered %q", line)
			survived(t, server)
			watcher.goesOn(t)
		})
	}

	require.Equal(t, "panics 0", server.finish(t), server.log())
}
