package files

import (
	"context"
	"io"
	"net/http"
	"path"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/api/httpx"
	"everloop/domain"
)

// FileRead is how a file is asked for.
type FileRead struct {
	Range       string `header:"Range" doc:"One range of bytes." example:"bytes=0-1023"`
	IfRange     string `header:"If-Range" doc:"The Range applies only while the file has this ETag." example:"\"5d41402abc4b2a76\""`
	IfNoneMatch string `header:"If-None-Match" doc:"The ETag of the client's copy: if it is current, the response is 304." example:"\"5d41402abc4b2a76\""`
	Download    bool   `query:"download" doc:"Ask browsers to save the file rather than show it."`
}

// readFile serves a file of the workspace, or a range of it.
func (a *WorkspaceAPI) readFile(ctx context.Context, in *struct {
	FileRef
	FileRead
},
) (*httpx.Streamed, error) {
	session, err := a.ReadableFiles(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}

	file, info, err := a.Workspaces.Open(ctx, session, in.FilePath)
	if err != nil {
		return nil, httpx.At("path.file_path", err)
	}

	return serve(in.FilePath, file, info, in.Download)
}

// serve answers with a file, or with a range of it, and closes it.
func serve(name string, file io.ReadSeekCloser, info domain.FileInfo, download bool) (*httpx.Streamed, error) {
	kind, err := httpx.ContentType(name, file)
	if err != nil {
		_ = file.Close()
		return nil, err
	}

	return &httpx.Streamed{Body: func(ctx huma.Context) {
		c := httpx.FiberOf(ctx)
		c.Set(fiber.HeaderETag, info.ETag)
		c.Set(fiber.HeaderLastModified, info.ModTime.UTC().Format(http.TimeFormat))
		c.Set(fiber.HeaderCacheControl, "private, no-cache") // asked again each time, answered 304
		c.Set(fiber.HeaderAcceptRanges, "bytes")

		if none := c.Get(fiber.HeaderIfNoneMatch); none != "" && httpx.MatchesETag(none, info.ETag) {
			_ = file.Close()

			c.Status(http.StatusNotModified)

			return
		}

		c.Set(fiber.HeaderContentType, kind)
		c.Set(fiber.HeaderContentDisposition, httpx.Disposition(download, path.Base(name)))

		if httpx.RunsInBrowser(kind) {
			c.Set(fiber.HeaderContentSecurityPolicy, httpx.ActiveContent)
		}

		if err := httpx.SendRange(c, file, info.Size, info.ETag); err != nil {
			_ = file.Close()

			c.Response().Header.Del(fiber.HeaderContentDisposition)
			httpx.Reject(ctx, err)
		}
	}}, nil
}
