package session

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/api/access"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
)

// AttachmentRef is the path of a picture of a message, as image blocks name it.
type AttachmentRef struct {
	SessionID domain.SessionID `path:"session_id" doc:"The session." example:"01a1fd9b-4f0b-74a3-bdbc-594f816ae116"`
	Name      string           `path:"attachment" maxLength:"64" pattern:"^[0-9a-f]{64}$" doc:"SHA-256 of the picture or recording." example:"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"`
}

// AttachmentsAPI serves the pictures of messages and of tool results.
type AttachmentsAPI struct {
	access.Sessions
	// Image returns a picture or a recording of a session's messages.
	Image func(ctx context.Context, sessionID domain.SessionID, name string) (data []byte, mime string, err error)
}

// Register adds the operations of the area to the interface.
func (a *AttachmentsAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "read-attachment", Method: fiber.MethodGet, Path: "/api/sessions/{session_id}/attachments/{attachment}", Tag: "Messages",
		Summary:     "Get a picture or a recording of a message, or an image of a tool result",
		Description: "The content of an image or audio block is the path of this operation; the images of a tool call name the attachment.",
		Scope:       auth.SessionsRead,
		Errors:      httpx.Codes{404: "object_not_found"},
		Replies:     []httpx.Reply{{Status: http.StatusOK, Types: []string{"image/*", "audio/*"}}},
	}, func(ctx context.Context, in *AttachmentRef) (*httpx.Streamed, error) {
		if _, _, err := a.Readable(ctx, in.SessionID); err != nil {
			return nil, err
		}

		data, mime, err := a.Image(ctx, in.SessionID, in.Name)
		if err != nil {
			return nil, err
		}

		return &httpx.Streamed{Body: func(ctx huma.Context) {
			c := httpx.FiberOf(ctx)
			c.Set(fiber.HeaderContentType, mime)
			c.Set(fiber.HeaderCacheControl, "private, max-age=31536000, immutable") // named by its content
			c.Response().SetBodyRaw(data)
		}}, nil
	})
}
