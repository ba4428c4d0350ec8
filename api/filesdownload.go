package api

import (
	"bufio"
	"context"
	"path"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// downloadDirectory packs a directory while it is sent.
func (s *server) downloadDirectory(ctx context.Context, in *DirRef) (*streamed, error) {
	session, _, err := s.readable(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}
	write, err := s.Workspaces.Zip(ctx, session, in.DirPath)
	if err != nil {
		return nil, at("path.dir_path", err)
	}
	name := path.Base(path.Clean("/" + in.DirPath))
	if name == "/" {
		name = "workspace"
	}
	request := requestOf(ctx)
	return &streamed{func(hctx huma.Context) {
		c := fiberOf(hctx)
		c.Set(fiber.HeaderContentType, "application/zip")
		c.Set(fiber.HeaderContentDisposition, disposition(true, name+".zip"))
		c.Set(fiber.HeaderCacheControl, "no-store")
		conn := c.Context().Conn()
		c.Context().SetBodyStreamWriter(fasthttp.StreamWriter(func(w *bufio.Writer) {
			writing, stop := context.WithTimeout(withRequest(request.base, request), transferTime)
			defer stop()
			pulse := &pulsing{w, func() { _ = conn.SetWriteDeadline(time.Now().Add(streamPatience)) }}
			if err := write(writing, pulse); err != nil { // too late for a status
				s.Logger.Error("a download was broken off", "request_id", request.id, "session_id", session.ID, "error", err)
				_ = conn.Close()
			}
		}))
	}}, nil
}
