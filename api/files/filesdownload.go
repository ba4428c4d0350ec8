package files

import (
	"bufio"
	"context"
	"path"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"everloop/api/httpx"
)

// downloadDirectory packs a directory while it is sent.
func (a *WorkspaceAPI) downloadDirectory(ctx context.Context, in *DirRef) (*httpx.Streamed, error) {
	session, err := a.ReadableFiles(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}

	write, err := a.Workspaces.Zip(ctx, session, in.DirPath)
	if err != nil {
		return nil, httpx.At("path.dir_path", err)
	}

	name := path.Base(path.Clean("/" + in.DirPath))
	if name == "/" {
		name = "workspace"
	}

	request := httpx.RequestOf(ctx)

	return &httpx.Streamed{Body: func(hctx huma.Context) {
		c := httpx.FiberOf(hctx)
		c.Set(fiber.HeaderContentType, "application/zip")
		c.Set(fiber.HeaderContentDisposition, httpx.Disposition(true, name+".zip"))
		c.Set(fiber.HeaderCacheControl, "no-store")
		conn := c.Context().Conn()
		c.Context().SetBodyStreamWriter(fasthttp.StreamWriter(func(w *bufio.Writer) {
			writing, stop := context.WithTimeout(httpx.WithRequest(request.Base, request), httpx.TransferTime)
			defer stop()

			pulse := httpx.Pulsing(w, conn)
			if err := write(writing, pulse); err != nil { // too late for a status
				a.Logger.Error("a download was broken off", "request_id", request.ID, "session_id", session.ID, "error", err)

				_ = conn.Close()
			}
		}))
	}}, nil
}
