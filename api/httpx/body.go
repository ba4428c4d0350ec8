package httpx

import (
	"bufio"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"os"
	"strings"

	"everloop/internal/limit"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/domain"
)

// MaxUpload bounds one uploaded file, in bytes.
const MaxUpload = 512 << 20

// maxAnonymousBody bounds the body of a request without valid credentials, in bytes.
const maxAnonymousBody = 64 << 10

// Hooks is where the addresses of triggers start. Their handler reads the body when it has found
// the trigger (see HookInput): its sender has no credentials of the service.
const Hooks = "/hooks/"

// bodies reads the bodies of requests.
type bodies struct {
	budget *limit.Budget // of the bodies of all requests
	max    int           // bytes of one
	auth   *authenticator
}

// take reads the body of a request before its handler starts, unless it is a
// form, which its handler reads as it comes (see readForm). What is larger than
// the server takes is refused, and without valid credentials nothing large is read.
func (b *bodies) take(c *fiber.Ctx) error {
	if !c.Request().IsBodyStream() {
		return c.Next()
	}

	in := incomingOf(c)

	in.reserved = reservation{b.budget.Reserve()}
	defer in.reserved.Release()

	if isMultipart(c) && strings.HasPrefix(c.Path(), "/api/") || strings.HasPrefix(c.Path(), Hooks) {
		RequestOf(c.UserContext()).body = in
		defer in.settle(c)

		return c.Next()
	}

	body, err := b.read(c, in)
	if refusal, ok := errors.AsType[*domain.Error](err); ok {
		in.reserved.Release() // nothing of the rest is kept
		in.settle(c)

		return refusal
	}

	if err != nil {
		c.Context().SetConnectionClose()
		return Malformed("the body could not be read")
	}

	length := c.Request().Header.ContentLength()
	if err := c.Request().CloseBodyStream(); err != nil {
		return Malformed("the body could not be read")
	}

	c.Request().SetBodyRaw(body)

	if length < 0 { // it came in chunks
		c.Request().Header.SetContentLength(len(body))
	}

	return c.Next()
}

// read reads a whole body. The credentials are looked at before it holds more than
// a request without valid credentials may have.
func (b *bodies) read(c *fiber.Ctx, from *incoming) ([]byte, error) {
	in := from.reserved.reader(from)
	most := min(maxAnonymousBody, b.max)

	body, err := io.ReadAll(io.LimitReader(in, int64(most)+1))
	if err != nil || len(body) <= most {
		return body, err
	}

	if _, err := b.auth.identify(c); err != nil {
		return nil, err
	}

	rest, err := io.ReadAll(io.LimitReader(in, int64(b.max-len(body))+1))
	if len(body)+len(rest) > b.max {
		return nil, TooLarge()
	}

	return append(body, rest...), err
}

func isMultipart(c *fiber.Ctx) bool {
	kind, _, err := mime.ParseMediaType(c.Get(fiber.HeaderContentType))
	return err == nil && kind == fiber.MIMEMultipartForm
}

// OpenForm starts to read a multipart form as it comes, which may be as slowly as
// its client sends, as long as it sends.
func OpenForm(c *fiber.Ctx) (*multipart.Reader, error) {
	in := RequestOf(c.UserContext()).body
	if in == nil {
		return nil, domain.Newf(domain.Unsupported, "unsupported_media_type", "the body must be multipart/form-data")
	}

	_, params, _ := mime.ParseMediaType(c.Get(fiber.HeaderContentType))
	if params["boundary"] == "" {
		return nil, Malformed("the form has no boundary")
	}

	in.quiet = slowest

	return multipart.NewReader(bufio.NewReaderSize(in, 64<<10), params["boundary"]), nil
}

// maxField bounds a field of a form that is no file, in bytes.
const maxField = 1 << 20

// readForm reads a multipart form of one file, named by its field, and short fields
// besides, which it returns. keep gets the file as it comes, which may be as slowly as
// its client sends, as long as it sends.
func readForm(ctx huma.Context, field string, keep func(file io.Reader) error) (fields map[string]string, err error) {
	c := FiberOf(ctx)
	if c.Request().Header.ContentLength() > MaxUpload+maxField {
		return nil, uploadTooLarge()
	}

	form, err := OpenForm(c)
	if err != nil {
		return nil, err
	}

	fields, kept := map[string]string{}, false

	const maxParts = 100

	for n := 0; ; n++ {
		part, err := form.NextRawPart()
		switch {
		case err == io.EOF && !kept: // itself: a form that was cut off gives one that wraps it
			return nil, domain.Invalidf("body."+field, "is required")
		case err == io.EOF:
			return fields, nil
		case err != nil || n == maxParts:
			return nil, Malformed("the form could not be read")
		case part.FormName() != field:
			if fields[part.FormName()], err = readField(RequestOf(ctx.Context()).body.reserved.reader(part)); err != nil {
				return nil, err
			}
		case kept:
			return nil, domain.Invalidf("body."+field, "is given twice")
		default:
			kept = true

			if err := keep(&uploadedFile{r: part, left: MaxUpload}); err != nil {
				return nil, err
			}
		}
	}
}

func readField(part io.Reader) (string, error) {
	value, err := io.ReadAll(io.LimitReader(part, maxField+1))
	if refusal, ok := errors.AsType[*domain.Error](err); ok {
		return "", refusal
	}

	if err != nil {
		return "", Malformed("the form could not be read")
	}

	if len(value) > maxField {
		return "", domain.Newf(domain.TooLarge, "body_too_large", "a field of the form is larger than %d bytes", maxField)
	}

	return strings.ToValidUTF8(string(value), "�"), nil
}

func uploadTooLarge() *domain.Error {
	return domain.Newf(domain.TooLarge, "body_too_large", "the file is larger than %d MB", MaxUpload>>20)
}

// uploadedFile is the file of a form on its way. Its errors are answers to the client.
type uploadedFile struct {
	r    io.Reader
	left int64
}

func (u *uploadedFile) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	if u.left -= int64(n); u.left < 0 {
		return 0, uploadTooLarge()
	}

	if err != nil && err != io.EOF {
		return n, Malformed("the form could not be read")
	}

	return n, err
}

// Spooled is a file that lies in a temporary file of the service. It has no name any
// more, so that it ends with the process whatever ends that.
type Spooled struct {
	File *os.File
	Size int64
	// Room fails while there is no room for the file; nil: there is always.
	Room func() error
}

// roomEvery is after how many bytes of a file Room is asked again.
const roomEvery = 8 << 20

// Keep writes the file: disk_full while there is no room.
func (s *Spooled) Keep(content io.Reader) (err error) {
	if err := domain.DiskFull(s.Room); err != nil {
		return err
	}

	if s.File, err = os.CreateTemp("", "everloop-upload-"); err != nil {
		return err
	}

	if err := os.Remove(s.File.Name()); err != nil {
		return err
	}

	for {
		n, err := io.CopyN(s.File, content, roomEvery)
		s.Size += n

		if errors.Is(err, io.EOF) {
			return nil
		}

		if err == nil {
			err = domain.DiskFull(s.Room)
		}

		if err != nil {
			return err
		}
	}
}

// Close frees the file.
func (s *Spooled) Close() {
	if s.File != nil {
		_ = s.File.Close()
	}
}

// FormInput is the input of an operation that takes a multipart form.
type FormInput struct {
	Form func(field string, keep func(file io.Reader) error) (fields map[string]string, err error)
}

// Resolve implements huma.Resolver: it only remembers the request.
func (f *FormInput) Resolve(ctx huma.Context) []error {
	f.Form = func(field string, keep func(file io.Reader) error) (map[string]string, error) {
		return readForm(ctx, field, keep)
	}

	return nil
}

var _ huma.Resolver = (*FormInput)(nil)

// HookInput is the input of the operation that receives requests to triggers.
type HookInput struct {
	// Read reads the body, of at most so many bytes.
	Read func(most int) ([]byte, error)
	// Headers are by their names in small letters.
	Headers map[string]string
}

// Resolve implements huma.Resolver: it only remembers the request.
func (h *HookInput) Resolve(ctx huma.Context) []error {
	h.Headers = map[string]string{}
	ctx.EachHeader(func(name, value string) {
		name = strings.ToLower(name)
		if before, repeated := h.Headers[name]; repeated {
			value = before + ", " + value
		}

		h.Headers[name] = value
	})
	h.Read = func(most int) ([]byte, error) {
		in := RequestOf(ctx.Context()).body
		if in == nil { // the server has read it
			body := FiberOf(ctx).Body()
			if len(body) > most {
				return nil, tooLargeFor(most)
			}

			return body, nil
		}

		in.quiet = slowest

		body, err := io.ReadAll(io.LimitReader(in.reserved.reader(in), int64(most)+1))
		if refusal, ok := errors.AsType[*domain.Error](err); ok {
			return nil, refusal
		}

		if err != nil {
			return nil, Malformed("the body could not be read")
		}

		if len(body) > most {
			return nil, tooLargeFor(most)
		}

		return body, nil
	}

	return nil
}

func tooLargeFor(most int) *domain.Error {
	return domain.Newf(domain.TooLarge, "body_too_large", "the body is larger than %d MB", most>>20)
}

var _ huma.Resolver = (*HookInput)(nil)
