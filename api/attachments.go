package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/auth"
)

// Images gives the pictures of a session's messages. The caller was let in.
type Images interface {
	Image(ctx context.Context, sessionID, name string) (data []byte, mime string, err error)
}

// AttachmentRef is the path of a picture of a message, as image blocks name it.
type AttachmentRef struct {
	SessionID string `path:"session_id"`
	Name      string `path:"attachment" maxLength:"64" pattern:"^[0-9a-f]{64}$" doc:"SHA-256 of the picture."`
}

func (s *server) attachmentRoutes() {
	add(s, operation{
		id: "read-attachment", method: fiber.MethodGet, path: "/api/sessions/{session_id}/attachments/{attachment}", tag: "Messages",
		summary: "A picture of a message, as its image block names it", scope: auth.SessionsRead,
		changes: describeAs(http.StatusOK, "image/*"),
	}, func(ctx context.Context, in *AttachmentRef) (*streamed, error) {
		if _, _, err := s.readable(ctx, in.SessionID); err != nil {
			return nil, err
		}
		data, mime, err := s.Images.Image(ctx, in.SessionID, in.Name)
		if err != nil {
			return nil, err
		}
		return &streamed{func(ctx huma.Context) {
			c := fiberOf(ctx)
			c.Set(fiber.HeaderContentType, mime)
			c.Set(fiber.HeaderCacheControl, "private, max-age=31536000, immutable") // named by its content
			c.Response().SetBodyRaw(data)
		}}, nil
	})
}
