package httpx

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"io"
	"mime"
	"mime/multipart"

	"github.com/gofiber/fiber/v2"
)

// formPrint names the content of a form while its handler reads it: the parts'
// names and what they hold, not how the client set them apart, which differs each
// time it sends them.
type formPrint struct {
	in   *incoming
	pipe *io.PipeWriter
	sum  chan []byte // what it came to; nil: it could not be read to its end
}

// printForm starts to follow the form that is on its way.
func printForm(c *fiber.Ctx, in *incoming) *formPrint {
	_, params, _ := mime.ParseMediaType(c.Get(fiber.HeaderContentType))
	read, write := io.Pipe()

	p := &formPrint{in: in, pipe: write, sum: make(chan []byte, 1)}
	go func() {
		p.sum <- printParts(bufio.NewReader(read), params["boundary"])

		_, _ = io.Copy(io.Discard, read) // the form's reader never waits for this one
	}()

	in.also = write

	return p
}

// end gives the name of what was read; nil when that was no whole form. It may be
// called again.
func (p *formPrint) end() []byte {
	if p.in.also == nil {
		return nil
	}

	p.in.also = nil
	_ = p.pipe.Close()

	return <-p.sum
}

// rest reads what is still to come, for at most as long as a transfer may take,
// and gives the name of the whole.
func (p *formPrint) rest(ctx context.Context) []byte {
	ctx, cancel := context.WithTimeout(ctx, TransferTime)
	defer cancel()

	p.in.quiet = slowest
	for buffer := make([]byte, 64<<10); ctx.Err() == nil; {
		if _, err := p.in.Read(buffer); err != nil {
			break
		}
	}

	return p.end()
}

func printParts(body io.Reader, boundary string) []byte {
	whole := sha256.New()

	for form := multipart.NewReader(body, boundary); ; {
		part, err := form.NextRawPart()
		if err == io.EOF {
			return whole.Sum(nil)
		}

		if err != nil {
			return nil
		}

		content := sha256.New()
		if _, err := io.Copy(content, part); err != nil {
			return nil
		}

		writeSized(whole, []byte(part.FormName()))
		writeSized(whole, []byte(part.FileName()))
		writeSized(whole, content.Sum(nil))
	}
}

// writeSized keeps what follows each other apart.
func writeSized(to hash.Hash, text []byte) {
	_ = binary.Write(to, binary.BigEndian, uint64(len(text))) // a hash never fails
	to.Write(text)
}
