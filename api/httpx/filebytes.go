package httpx

import (
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"everloop/domain"
)

// ActiveContent is what goes with a file that a browser would run: it may run,
// but as a page from nowhere, without this service's cookies and storage.
const ActiveContent = "sandbox allow-scripts allow-forms allow-modals allow-popups"

// SendRange answers with the file, or with the one range that was asked for. More
// than one range at once is answered with the whole, as RFC 9110 allows.
func SendRange(c *fiber.Ctx, file io.ReadSeekCloser, size int64, etag string) error {
	from, length := int64(0), size

	asked := c.Get(fiber.HeaderRange)
	if size == 0 {
		asked = "" // a client that asks for the first bytes of every file gets those that there are: none
	}

	if conditional := c.Get(fiber.HeaderIfRange); conditional != "" && conditional != etag {
		asked = ""
	}

	if first, last, ok, fits := parseRange(asked, size); ok {
		if !fits {
			c.Set(fiber.HeaderContentRange, fmt.Sprintf("bytes */%d", size))
			return domain.Newf(domain.Invalid, CodeRange, "the file has no such range")
		}

		from, length = first, last-first+1
		c.Set(fiber.HeaderContentRange, fmt.Sprintf("bytes %d-%d/%d", first, last, size))
		c.Status(http.StatusPartialContent)
	}

	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return fmt.Errorf("seek to the range: %w", err)
	}

	c.Context().SetBodyStream(&fileBody{io.LimitReader(file, length), file, c.Context().Conn()}, int(length))

	return nil
}

// parseRange reads a Range header of one range. ok reports that it is one at all,
// fits that the file has it.
func parseRange(header string, size int64) (first, last int64, ok, fits bool) {
	spec, found := strings.CutPrefix(header, "bytes=")

	begin, end, dash := strings.Cut(strings.TrimSpace(spec), "-")
	if !found || !dash || strings.Contains(spec, ",") {
		return 0, 0, false, false
	}

	number := func(s string) (int64, bool) {
		n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 62)
		return int64(n), err == nil
	}
	if begin == "" { // the last n bytes
		n, valid := number(end)
		if !valid {
			return 0, 0, false, false
		}

		return max(0, size-n), size - 1, true, n > 0 && size > 0
	}

	first, valid := number(begin)
	if !valid {
		return 0, 0, false, false
	}

	last = size - 1

	if end != "" {
		asked, valid := number(end)
		if !valid || asked < first {
			return 0, 0, false, false
		}

		last = min(last, asked)
	}

	return first, last, true, first < size
}

// MatchesETag compares an If-None-Match header with an ETag, weakly as it is meant.
func MatchesETag(header, etag string) bool {
	for tag := range strings.SplitSeq(header, ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		if tag == "*" || tag == etag {
			return true
		}
	}

	return false
}

// FileKinds are the content types of what agents write most, so that they do not
// depend on the machine.
var FileKinds = map[string]string{
	".md": "text/markdown", ".txt": "text/plain", ".log": "text/plain", ".csv": "text/csv", ".json": "application/json",
	".jsonl": "application/x-ndjson", ".yaml": "application/yaml", ".yml": "application/yaml", ".toml": "application/toml",
	".html": "text/html", ".htm": "text/html", ".css": "text/css", ".js": "text/javascript", ".mjs": "text/javascript",
	".ts": "text/plain", ".tsx": "text/plain", ".py": "text/plain", ".go": "text/plain", ".sh": "text/plain",
	".xml": "application/xml", ".svg": "image/svg+xml", ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg",
	".gif": "image/gif", ".webp": "image/webp", ".pdf": "application/pdf", ".zip": "application/zip",
	".mp3": "audio/mpeg", ".mp4": "video/mp4", ".wasm": "application/wasm",
}

// ContentType returns a file's type by its name, else by its first bytes.
func ContentType(name string, file io.Reader) (string, error) {
	kind := FileKinds[strings.ToLower(path.Ext(name))]
	if kind == "" {
		var head [512]byte

		n, err := io.ReadFull(file, head[:])
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return "", fmt.Errorf("read workspace file: %w", err)
		}

		if n == 0 {
			return "text/plain; charset=utf-8", nil
		}

		return http.DetectContentType(head[:n]), nil
	}

	if strings.HasPrefix(kind, "text/") {
		kind += "; charset=utf-8"
	}

	return kind, nil
}

// RunsInBrowser reports whether a browser might run what it gets.
func RunsInBrowser(kind string) bool {
	return strings.HasPrefix(kind, "text/html") || strings.Contains(kind, "xml")
}

// Disposition names the file for browsers, whatever characters its name has.
func Disposition(download bool, name string) string {
	how := "inline"
	if download {
		how = "attachment"
	}

	if full := mime.FormatMediaType(how, map[string]string{"filename": name}); full != "" {
		return full
	}

	return how
}

// Error codes that the operations on files share.
const (
	OnPath = "path_outside_workspace invalid_path"               // 400
	OnRead = "is_a_directory not_a_directory not_a_regular_file" // 422
	OnDisk = "too_large no_space"                                // 413
)

// OnArchive are the error codes of a ZIP archive (422).
const OnArchive = "invalid_archive not_a_zip zip_damaged zip_expands zip_too_many_files zip_unsafe_name zip_not_regular " +
	"zip_name_twice zip_cannot_unpack"

// Pulsing gives each write to a client its own time: a client that reads slowly
// gets all of it, and one that stands still is disconnected.
func Pulsing(w io.Writer, conn net.Conn) io.Writer { return &pulsing{w, conn} }

type pulsing struct {
	w    io.Writer
	conn net.Conn
}

func (p *pulsing) Write(b []byte) (int, error) {
	_ = p.conn.SetWriteDeadline(time.Now().Add(WriteTimeout))
	return p.w.Write(b)
}

// fileBody is a file on its way to a client, who has time for it as long as
// something moves.
type fileBody struct {
	io.Reader
	io.Closer
	conn net.Conn
}

func (f *fileBody) Read(p []byte) (int, error) {
	_ = f.conn.SetWriteDeadline(time.Now().Add(WriteTimeout))
	return f.Reader.Read(p)
}
