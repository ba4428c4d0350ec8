package httpx

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"

	"github.com/gofiber/fiber/v2"

	"everloop/domain"
	"everloop/internal/clients"
)

// addresses finds the addresses of clients.
type addresses struct{ proxies clients.Proxies }

// of returns the address of the client of a request, behind trusted proxies too.
func (a addresses) of(c *fiber.Ctx) netip.Addr {
	peer, _ := netip.AddrFromSlice(c.Context().RemoteIP())

	var forwarded []string
	for _, value := range c.Request().Header.PeekAll(fiber.HeaderXForwardedFor) {
		forwarded = append(forwarded, string(value))
	}

	return a.proxies.Client(peer, forwarded...)
}

// https reports whether the browser of a request came over HTTPS.
func (a addresses) https(c *fiber.Ctx) bool {
	peer, _ := netip.AddrFromSlice(c.Context().RemoteIP())

	return c.Context().IsTLS() || a.proxies.ForwardedHTTPS(peer, c.Get(fiber.HeaderXForwardedProto))
}

// countConnection counts the requests of trusted proxies for their clients.
// Connections of clients themselves are counted by the listener.
func (a addresses) countConnection(c *fiber.Ctx) error {
	conn, counted := c.Context().Conn().(*clients.Conn)
	if !counted {
		return c.Next()
	}

	if !conn.Begin(a.of(c)) {
		return tooManyConnections()
	}

	err := c.Next()
	if !c.Context().Hijacked() && !c.Response().IsBodyStream() {
		conn.Idle() // streams and sockets count until the next request, or the end of their connection
	}

	return err
}

// CodeTooManyConnections refuses a connection or request beyond the bound of its client.
const CodeTooManyConnections = "too_many_connections"

func tooManyConnections() *domain.Error {
	e := domain.Newf(domain.RateLimited, CodeTooManyConnections, "too many connections are open from this address")
	e.RetryAfter = 1

	return e
}

// RefuseConnection returns the whole answer, head and body, for a connection beyond the
// bound of its client, of which no request is read.
func RefuseConnection() []byte {
	refused := tooManyConnections()
	problem := ProblemOf(refused, domain.NewID())

	body, err := json.Marshal(problem)
	if err != nil {
		panic(err) // strings and numbers only
	}

	head := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n"+
		"Retry-After: %d\r\nX-Request-Id: %s\r\nConnection: close\r\n\r\n",
		problem.Status, http.StatusText(problem.Status), len(body), refused.RetryAfter, problem.RequestID)

	return append([]byte(head), body...)
}
