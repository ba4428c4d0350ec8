package sio

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/gorilla/websocket"
	"github.com/zishang520/engine.io/v2/engine"
	"github.com/zishang520/engine.io/v2/events"
	"github.com/zishang520/engine.io/v2/transports"
	"github.com/zishang520/engine.io/v2/types"
)

type connKey struct{}

// handedConnOf returns the connection of a request.
func handedConnOf(r *http.Request) *handedConn {
	conn, _ := r.Context().Value(connKey{}).(*handedConn)
	return conn
}

// serveHTTP checks a request before it is passed to the library.
func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	defer s.recovered("request")

	if conn := handedConnOf(r); conn != nil && conn.requestID != "" {
		w.Header().Set(fiber.HeaderXRequestID, conn.requestID)
	}

	if !s.allowOrigin(w.Header(), r) {
		refuse(w, http.StatusForbidden, "Origin not allowed")
		return
	}

	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}

	query := r.URL.Query()
	name, sid := query.Get("transport"), query.Get("sid")

	upgrade := websocket.IsWebSocketUpgrade(r)
	switch {
	case query.Get("EIO") != "4":
		refuse(w, http.StatusBadRequest, "Unsupported protocol version")
	case name != transports.POLLING && name != transports.WEBSOCKET:
		refuse(w, http.StatusBadRequest, "Transport unknown")
	case upgrade != (name == transports.WEBSOCKET) || query.Has("j"):
		refuse(w, http.StatusBadRequest, "Bad request")
	case sid == "" && s.closed.Load():
		refuse(w, http.StatusServiceUnavailable, "Shutting down")
	case sid == "" && r.Method != http.MethodGet:
		refuse(w, http.StatusBadRequest, "Bad handshake method")
	case sid == "" && upgrade:
		s.openWebSocket(w, r)
	case sid == "":
		s.openPolling(w, r)
	default:
		s.continueSession(w, r, sid, upgrade)
	}
}

func (s *Server) openPolling(w http.ResponseWriter, r *http.Request) {
	_, t := s.engine.Handshake(transports.POLLING, types.NewHttpContext(w, r))

	poll, ok := t.(*pollTransport)
	if !ok {
		refuse(w, http.StatusBadRequest, "Bad request")
		return
	}

	poll.servePoll(w, r)
}

// upgrader disables compression, with which a limit on messages would count compressed bytes.
// The origin was checked before.
var upgrader = websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}

func (s *Server) openWebSocket(w http.ResponseWriter, r *http.Request) {
	ctx := types.NewHttpContext(w, r)

	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // answered by the upgrader
	}

	conn.SetReadLimit(s.opts.MaxTransport)

	ctx.Websocket = &types.WebSocketConn{EventEmitter: events.New(), Conn: conn}
	if _, t := s.engine.Handshake(transports.WEBSOCKET, ctx); t == nil {
		_ = conn.Close()
	}
}

func (s *Server) continueSession(w http.ResponseWriter, r *http.Request, sid string, upgrade bool) {
	sess, ok := s.session(sid)
	if !ok {
		refuseCode(w, http.StatusBadRequest, engine.UNKNOWN_SID.Code, "Session ID unknown")
		return
	}

	poll, ok := sess.pollTransport()
	switch {
	case !ok:
		refuse(w, http.StatusBadRequest, "Bad request")
	case upgrade:
		s.upgrade(w, r, sess, poll)
	case r.Method == http.MethodGet:
		poll.servePoll(w, r)
	case r.Method == http.MethodPost:
		poll.servePost(w, r)
	default:
		refuse(w, http.StatusBadRequest, "Bad request")
	}
}

// bodyLimit returns the maximum size of a request's body, in bytes.
func (s *Server) bodyLimit(sid string) int64 {
	if sess, ok := s.session(sid); ok {
		return sess.limit.Load()
	}

	return maxHandshake
}

// allowOrigin rejects pages of other sites, whose requests the browser would send with the
// visitor's cookies, and allows permitted origins to read the responses.
func (s *Server) allowOrigin(header http.Header, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}

	header.Add("Vary", "Origin")

	if slices.Contains(s.opts.AllowedOrigins, origin) {
		header.Set("Access-Control-Allow-Origin", origin)
		header.Set("Access-Control-Allow-Credentials", "true")

		if r.Method == http.MethodOptions {
			header.Set("Access-Control-Allow-Methods", "GET, POST")
			header.Set("Access-Control-Allow-Headers", "Content-Type, Authorization")
			header.Set("Access-Control-Max-Age", "600")
		}

		return true
	}

	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	// A proxy may have changed Host; a page cannot set the other header.
	return strings.EqualFold(u.Host, r.Host) || strings.EqualFold(u.Host, r.Header.Get("X-Forwarded-Host"))
}

func refuse(w http.ResponseWriter, status int, message string) {
	refuseCode(w, status, engine.BAD_REQUEST.Code, message)
}

// refuseCode writes an error in the protocol's format.
func refuseCode(w http.ResponseWriter, status, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"code": code, "message": message})
}
