package api

import (
	"bufio"
	"io"
	"mime"
	"mime/multipart"
	"os"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/domain"
)

// maxUpload bounds one uploaded file, in bytes (decisions.md section 2).
const maxUpload = 512 << 20

// takeBody reads the body of a request before its handler begins, unless it is a
// form, which its handler reads as it comes (see readForm). What is larger than
// the server takes is refused.
func (s *server) takeBody(c *fiber.Ctx) error {
	if !c.Request().IsBodyStream() {
		return c.Next()
	}
	in := incomingOf(c)
	if isMultipart(c) && strings.HasPrefix(c.Path(), "/api/") {
		requestOf(c.UserContext()).body = in
		defer in.settle(c)
		return c.Next()
	}
	body, err := io.ReadAll(io.LimitReader(in, int64(s.MaxBody)+1))
	if err != nil {
		c.Context().SetConnectionClose()
		return malformed("the body could not be read")
	}
	if len(body) > s.MaxBody {
		in.settle(c)
		return tooLarge()
	}
	length := c.Request().Header.ContentLength()
	if err := c.Request().CloseBodyStream(); err != nil {
		return malformed("the body could not be read")
	}
	c.Request().SetBodyRaw(body)
	if length < 0 { // it came in chunks
		c.Request().Header.SetContentLength(len(body))
	}
	return c.Next()
}

func isMultipart(c *fiber.Ctx) bool {
	kind, _, err := mime.ParseMediaType(c.Get(fiber.HeaderContentType))
	return err == nil && kind == fiber.MIMEMultipartForm
}

// openForm begins to read a multipart form as it comes, which may be as slowly as
// its client sends, as long as it sends.
func openForm(c *fiber.Ctx) (*multipart.Reader, error) {
	in := requestOf(c.UserContext()).body
	if in == nil {
		return nil, domain.Newf(domain.Unsupported, "unsupported_media_type", "the body must be multipart/form-data")
	}
	_, params, _ := mime.ParseMediaType(c.Get(fiber.HeaderContentType))
	if params["boundary"] == "" {
		return nil, malformed("the form has no boundary")
	}
	in.quiet = slowest
	return multipart.NewReader(bufio.NewReaderSize(in, 64<<10), params["boundary"]), nil
}

// upload is a form with one file, which lies in a temporary file of the service. It
// has no name any more, so that it ends with the process whatever ends that.
type upload struct {
	file   *os.File
	size   int64
	fields map[string]string
}

// close frees the file.
func (u *upload) close() {
	if u.file != nil {
		_ = u.file.Close()
	}
}

// readForm reads a multipart form of at most one file, named by its field, and
// short fields besides. The file goes to the disk as it comes, and may come as
// slowly as its client sends, as long as it sends.
func readForm(ctx huma.Context, field string) (*upload, error) {
	form, err := openForm(fiberOf(ctx))
	if err != nil {
		return nil, err
	}
	u := &upload{fields: map[string]string{}}
	if err = u.read(form, field); err != nil {
		u.close()
		return nil, err
	}
	if u.file == nil {
		return nil, domain.Invalidf("body."+field, "is required")
	}
	return u, nil
}

func (u *upload) read(form *multipart.Reader, field string) error {
	const maxParts, maxField = 100, 1 << 20
	for n := 0; ; n++ {
		part, err := form.NextRawPart()
		if err == io.EOF { // itself: a form that was cut off gives one that wraps it
			return nil
		}
		if err != nil || n == maxParts {
			return malformed("the form could not be read")
		}
		if part.FormName() != field {
			value, err := io.ReadAll(io.LimitReader(part, maxField+1))
			if err != nil {
				return malformed("the form could not be read")
			}
			if len(value) > maxField {
				return domain.Newf(domain.TooLarge, "body_too_large", "a field of the form is larger than %d bytes", maxField)
			}
			u.fields[part.FormName()] = strings.ToValidUTF8(string(value), "�")
			continue
		}
		if u.file != nil {
			return domain.Invalidf("body."+field, "is given twice")
		}
		if u.file, err = os.CreateTemp("", "everloop-upload-"); err != nil {
			return err
		}
		if err := os.Remove(u.file.Name()); err != nil {
			return err
		}
		if u.size, err = io.Copy(u.file, io.LimitReader(part, maxUpload+1)); err != nil {
			return malformed("the form could not be read")
		}
		if u.size > maxUpload {
			return domain.Newf(domain.TooLarge, "body_too_large", "the file is larger than %d MB", maxUpload>>20)
		}
	}
}

// formInput is the input of an operation that takes a multipart form.
type formInput struct {
	form func(field string) (*upload, error)
}

// Resolve implements huma.Resolver: it only remembers the request.
func (f *formInput) Resolve(ctx huma.Context) []error {
	f.form = func(field string) (*upload, error) { return readForm(ctx, field) }
	return nil
}

var _ huma.Resolver = (*formInput)(nil)

// describeForm documents a multipart form with one file.
func describeForm(file string, fields map[string]string) func(*huma.Operation) {
	return func(op *huma.Operation) {
		properties := map[string]*huma.Schema{file: {Type: huma.TypeString, Format: "binary"}}
		for name, doc := range fields {
			properties[name] = &huma.Schema{Type: huma.TypeString, Description: doc}
		}
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			fiber.MIMEMultipartForm: {Schema: &huma.Schema{Type: huma.TypeObject, Properties: properties, Required: []string{file}}},
		}}
	}
}
