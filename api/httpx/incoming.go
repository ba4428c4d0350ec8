package httpx

import (
	"io"
	"net"
	"time"

	"github.com/gofiber/fiber/v2"
)

// incoming is a request's body on its way. The server leaves to us what of it is
// not read: taken for the next request, it could say anything in another's name,
// so that every body is settled before its connection serves on.
type incoming struct {
	r     io.Reader
	conn  net.Conn
	left  int           // bytes that are still to come; below 0: it comes in chunks
	err   error         // io.EOF once it was read whole, or what broke it
	quiet time.Duration // how long the client may send nothing; 0: as the connection says
	also  io.Writer     // gets what is read too; nil: nothing does

	reserved reservation // what is kept of it in memory
}

// slowest is how long the client of a form may send nothing.
const slowest = time.Minute

func incomingOf(c *fiber.Ctx) *incoming {
	return &incoming{r: c.Request().BodyStream(), conn: c.Context().Conn(), left: c.Request().Header.ContentLength()}
}

// Read never continues after the end: the reader below would read the next request.
func (in *incoming) Read(p []byte) (int, error) {
	if in.err != nil {
		return 0, in.err
	}

	if in.quiet > 0 {
		_ = in.conn.SetReadDeadline(time.Now().Add(in.quiet))
	}

	n, err := in.r.Read(p)
	if in.left >= 0 {
		if in.left -= n; err == io.EOF && in.left > 0 {
			err = io.ErrUnexpectedEOF // the client hung up
		}
	}

	in.err = err
	if in.also != nil && n > 0 {
		_, _ = in.also.Write(p[:n]) // it looks on, and can refuse nothing
	}

	return n, err
}

// settle takes what the client still sends: one whose connection is closed while
// it writes never sees the answer. What is too long for that ends the connection.
func (in *incoming) settle(c *fiber.Ctx) {
	const most, patience = 64 << 20, 10 * time.Second
	if in.err == nil && c.Request().Header.ContentLength() <= most {
		in.quiet = 0
		_ = in.conn.SetReadDeadline(time.Now().Add(patience))
		_, _ = io.CopyN(io.Discard, in, most)
	}

	if in.err != io.EOF {
		c.Context().SetConnectionClose()
	}
}
