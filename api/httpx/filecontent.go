package httpx

import (
	"context"
	"io"
	"net/http"
	"path"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/domain"
)

// FileRead is how a file is asked for.
type FileRead struct {
	Range       string `header:"Range" doc:"One range of bytes." example:"bytes=0-1023"`
	IfRange     string `header:"If-Range" doc:"The Range applies only while the file has this ETag." example:"\"5d41402abc4b2a76\""`
	IfNoneMatch string `header:"If-None-Match" doc:"The ETag of the client's copy: if it is current, the response is 304." example:"\"5d41402abc4b2a76\""`
	Download    bool   `query:"download" doc:"Ask browsers to save the file rather than show it."`
}

// ContentReplies are the answers to a request for the content of a file.
var ContentReplies = []Reply{
	{Status: http.StatusOK, Types: []string{"application/octet-stream"}},
	{Status: http.StatusPartialContent, Types: []string{"application/octet-stream"}},
	{Status: http.StatusNotModified},
}

// ServeContent answers with a file, or with a range of it, and closes it.
func ServeContent(name string, file io.ReadSeekCloser, info domain.FileInfo, download bool) (*Streamed, error) {
	kind, err := ContentType(name, file)
	if err != nil {
		_ = file.Close()
		return nil, err
	}

	return &Streamed{Body: func(ctx huma.Context) {
		c := FiberOf(ctx)
		c.Set(fiber.HeaderETag, info.ETag)
		c.Set(fiber.HeaderLastModified, info.ModTime.UTC().Format(http.TimeFormat))
		c.Set(fiber.HeaderCacheControl, "private, no-cache") // asked again each time, answered 304
		c.Set(fiber.HeaderAcceptRanges, "bytes")

		if none := c.Get(fiber.HeaderIfNoneMatch); none != "" && MatchesETag(none, info.ETag) {
			_ = file.Close()

			c.Status(http.StatusNotModified)

			return
		}

		c.Set(fiber.HeaderContentType, kind)
		c.Set(fiber.HeaderContentDisposition, Disposition(download, path.Base(name)))

		if RunsInBrowser(kind) {
			c.Set(fiber.HeaderContentSecurityPolicy, ActiveContent)
		}

		if err := SendRange(c, file, info.Size, info.ETag); err != nil {
			_ = file.Close()

			c.Response().Header.Del(fiber.HeaderContentDisposition)
			Reject(ctx, err)
		}
	}}, nil
}

// Outliving opens a content that can be read after the handler has returned, for an
// hour, until it is closed. Without a content there is nothing to close.
func Outliving(ctx context.Context, open func(context.Context) (io.ReadSeekCloser, error)) (io.ReadSeekCloser, error) {
	request := RequestOf(ctx)
	reading, stop := context.WithTimeout(WithRequest(request.Base, request), TransferTime)
	opened := context.AfterFunc(ctx, stop)
	content, err := open(reading)

	opened()

	if content == nil || err != nil {
		stop()
		return nil, err
	}

	return &outlivingContent{content, stop}, nil
}

// outlivingContent ends the time of a content that is read when it is closed.
type outlivingContent struct {
	io.ReadSeekCloser
	stop context.CancelFunc
}

// Close implements io.Closer.
func (c *outlivingContent) Close() error {
	defer c.stop()
	return c.ReadSeekCloser.Close()
}
