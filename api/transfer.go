package api

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"everloop/auth"
	"everloop/domain"
)

// Transfers carry sessions out of this installation and into it (decisions.md
// section 6).
type Transfers interface {
	// Export reads what is to be written; the caller was let in, and may have the
	// parts.
	Export(ctx context.Context, session domain.Session, parts domain.ExportParts) (SessionExport, error)
	Preview(ctx context.Context, archive io.ReaderAt, size int64) (domain.ImportPreview, error)
	// Import makes a session of the owner's, or leaves nothing behind.
	Import(ctx context.Context, ownerID string, archive io.ReaderAt, size int64, in domain.ImportOptions) (string, domain.ImportedFrom, error)
}

// SessionExport is an archive that is ready to be written.
type SessionExport interface {
	Write(ctx context.Context, w io.Writer) error
	Close() error
}

// transferTime bounds reading or writing one archive.
const transferTime = time.Hour

// importedSession is a session's detail with where it comes from.
type importedSession struct {
	SessionDetail
	ImportedFrom domain.ImportedFrom `json:"imported_from"`
}

func (s *server) transferRoutes() {
	const tag = "Import and export"
	add(s, operation{
		id: "export-session", method: fiber.MethodGet, path: "/api/sessions/{session_id}/export", tag: tag, stream: true,
		summary: "The session as a ZIP archive, without environment values and keys; with its files for keys that may read them", scope: auth.SessionsRead,
		changes: describeAs(http.StatusOK, "application/zip"),
	}, s.export)
	add(s, operation{
		id: "preview-import", method: fiber.MethodPost, path: "/api/sessions/preview-import", tag: tag, stream: true,
		summary: "What an archive holds, and whether it can be imported; nothing is made", scope: auth.SessionsWrite,
	}, s.previewImport)
	add(s, operation{
		id: "import-session", method: fiber.MethodPost, path: "/api/sessions/import", tag: tag, stream: true,
		summary: "Make a session from an archive", scope: auth.SessionsWrite,
	}, s.importSession)
	// Told afterwards: an operation with a body that it does not decode would be
	// taken for one of JSON.
	paths := s.huma.OpenAPI().Paths
	describeForm("file", nil)(paths["/api/sessions/preview-import"].Post)
	describeForm("file", map[string]string{"name": "The intent of the session; empty: as it was.", "solution_id": "Its solution."})(paths["/api/sessions/import"].Post)
}

func (s *server) export(ctx context.Context, in *SessionRef) (*streamed, error) {
	session, role, err := s.readable(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}
	// The archive is written after this handler has returned.
	writing, stop := context.WithTimeout(withRequest(requestOf(ctx).base, requestOf(ctx)), transferTime)
	parts := domain.ExportParts{Private: role == domain.ViewerOwner, Files: auth.Allows(callerOf(ctx), auth.Files)}
	export, err := s.Transfers.Export(writing, session, parts)
	if err != nil {
		stop()
		return nil, err
	}
	end := func() {
		stop()
		if err := export.Close(); err != nil {
			s.Logger.Warn("an export was not cleared away", "request_id", requestOf(ctx).id, "error", err)
		}
	}
	return &streamed{func(hctx huma.Context) {
		c := fiberOf(hctx)
		c.Set(fiber.HeaderContentType, "application/zip")
		c.Set(fiber.HeaderContentDisposition, `attachment; filename="session-`+session.ID+`.zip"`)
		c.Set(fiber.HeaderCacheControl, "no-store")
		conn := c.Context().Conn()
		c.Context().SetBodyStreamWriter(fasthttp.StreamWriter(func(w *bufio.Writer) {
			defer end()
			pulse := &pulsing{w, func() { _ = conn.SetWriteDeadline(time.Now().Add(streamPatience)) }}
			if err := export.Write(writing, pulse); err != nil { // too late for a status
				s.Logger.Error("an export was broken off", "request_id", requestOf(ctx).id, "session_id", session.ID, "error", err)
				_ = conn.Close()
			}
		}))
	}}, nil
}

// pulsing gives each write a time of its own: a client that reads slowly gets all
// of it, and one that stands still is let go.
type pulsing struct {
	w    io.Writer
	beat func()
}

func (p *pulsing) Write(b []byte) (int, error) {
	p.beat()
	return p.w.Write(b)
}

func (s *server) previewImport(ctx context.Context, in *formInput) (*body[domain.ImportPreview], error) {
	ctx, cancel := context.WithTimeout(ctx, transferTime)
	defer cancel()
	form, err := in.form("file")
	if err != nil {
		return nil, err
	}
	defer form.close()
	return answer(s.Transfers.Preview(ctx, form.file, form.size))
}

func (s *server) importSession(ctx context.Context, in *formInput) (*body[importedSession], error) {
	ctx, cancel := context.WithTimeout(ctx, transferTime)
	defer cancel()
	form, err := in.form("file")
	if err != nil {
		return nil, err
	}
	defer form.close()
	const maxName, maxSolution = 100_000, 256
	options := domain.ImportOptions{Name: form.fields["name"]}
	if len(options.Name) > maxName {
		return nil, domain.Invalidf("body.name", "has more than %d characters", maxName)
	}
	if solution := form.fields["solution_id"]; solution != "" {
		if len(solution) > maxSolution {
			return nil, domain.Invalidf("body.solution_id", "has more than %d characters", maxSolution)
		}
		options.SolutionID = &solution
	}
	if err := s.checkSolution(ctx, options.SolutionID, nil); err != nil {
		return nil, err
	}
	user := callerOf(ctx).User
	id, from, err := s.Transfers.Import(ctx, user.ID, form.file, form.size, options)
	if err != nil {
		return nil, at("body.file", err)
	}
	session, err := s.Store.OwnSession(ctx, user, id)
	return answer(importedSession{s.detailOf(session, domain.ViewerOwner), from}, err)
}
