package session

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"everloop/api/access"
	"everloop/api/httpx"
	"everloop/api/sessiondetail"
	"everloop/auth"
	"everloop/domain"
	"everloop/domain/transfer"
)

// Transfers carry sessions out of this installation and into it
// (docs/sharing.md).
type Transfers interface {
	// Export reads what must be written; the caller is authorised, and may have the
	// parts.
	Export(ctx context.Context, callerID string, session domain.Session, parts transfer.ExportParts) (Export, error)
	Preview(ctx context.Context, ownerID string, archive io.ReaderAt, size int64) (transfer.ImportPreview, error)
	// Upload stores an archive, which the caller imports or discards.
	Upload(ctx context.Context, ownerID string, archive io.Reader) (transfer.ArchiveUpload, error)
	Discard(ctx context.Context, upload transfer.ArchiveUpload) (discarded bool, err error)
	// Import makes a session of an upload, or leaves nothing behind. It continues when the
	// caller leaves.
	Import(ctx context.Context, in transfer.ImportRequest) (sessionID domain.SessionID, from transfer.ImportedFrom, err error)
}

// Export is an archive that is ready to be written.
type Export interface {
	Write(ctx context.Context, w io.Writer) error
	Close() error
}

// transferTime bounds reading or writing one archive.
const transferTime = time.Hour

// importedSession is a session's detail with where it comes from.
type importedSession struct {
	sessiondetail.SessionDetail
	ImportedFrom transfer.ImportedFrom `json:"imported_from" doc:"The origin of the session."`
}

// TransferAPI exports and imports sessions.
type TransferAPI struct {
	access.Sessions
	access.RoleCheck
	sessiondetail.SessionViews
	Transfers Transfers
	Logger    *slog.Logger
	Room      func() error // of temporary files
}

// Register adds the operations of the area to the interface.
func (a *TransferAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "export-session", Method: fiber.MethodGet, Path: "/api/sessions/{session_id}/export", Tag: "Import and export",
		Summary: "Export a session as a ZIP archive",
		Description: "The archive is created while it is sent. It contains files only for keys that may read them, memories only for " +
			"the owner, and never environment values or keys.",
		Scope: auth.SessionsRead, Audit: "session.export", Stream: true,
		Errors:  httpx.Codes{413: "no_space", 429: "too_many_exports", 503: "disk_full"},
		Headers: map[string]string{"Content-Disposition": "attachment, with a name for the file."},
		Replies: []httpx.Reply{{Status: http.StatusOK, Types: []string{"application/zip"}}},
	}, a.export)
	httpx.Register(r, httpx.Operation{
		ID: "preview-import", Method: fiber.MethodPost, Path: "/api/sessions/preview-import", Tag: "Import and export",
		Summary: "Check an archive before importing it",
		Description: "Nothing is created. An archive that cannot be imported returns 200 with compatible false and the reason in " +
			"errors.",
		Scope: auth.SessionsWrite, Stream: true,
		Errors:  httpx.Codes{413: "zip_too_large no_space", 422: httpx.OnArchive, 429: "too_many_imports", 503: "disk_full"},
		Form:    &httpx.Form{File: "file"},
		Example: `{"file": "session.zip"}`,
	}, a.previewImport)
	httpx.Register(r, httpx.Operation{
		ID: "import-session", Method: fiber.MethodPost, Path: "/api/sessions/import", Tag: "Import and export",
		Summary: "Create a session from an archive",
		Description: "A form with the archive. Messages, branches, checkpoints and files are restored with new ids; what this " +
			"installation does not have is left out. Environment buckets and rules that allow tool calls are not imported. " +
			"The import continues if the client disconnects; a repeat with the same Idempotency-Key waits for its result.",
		Scope: auth.SessionsWrite, Audit: "session.import", Stream: true, Joins: true,
		Errors: httpx.Codes{
			404: "import_not_found",
			409: "import_lost import_cancelled",
			413: "zip_too_large no_space too_many_files",
			422: httpx.OnArchive + " solution_not_found",
			429: "too_many_imports",
			503: "import_pending disk_full",
		},
		Form: &httpx.Form{File: "file", Fields: map[string]string{
			"name": "The intent of the session; empty: the recorded one.", "solution_id": "The solution of the session.",
		}},
		Example: `{"file": "session.zip", "name": "Release notes, again"}`,
	}, a.importSession)
}

func (a *TransferAPI) export(ctx context.Context, in *access.SessionRef) (*httpx.Streamed, error) {
	session, role, err := a.Readable(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}
	// The archive is written after this handler has returned.
	writing, stop := context.WithTimeout(httpx.WithRequest(httpx.RequestOf(ctx).Base, httpx.RequestOf(ctx)), transferTime)
	parts := transfer.ExportParts{Private: role == domain.ViewerOwner, Files: auth.Allows(httpx.CallerOf(ctx), auth.Files)}

	if parts.Files && role != domain.ViewerOwner {
		withheld, err := a.Store.HoldsSecrets(ctx, session.ID)
		if err != nil {
			stop()
			return nil, err
		}

		parts.Files = !withheld
	}

	export, err := a.Transfers.Export(writing, httpx.CallerOf(ctx).User.ID, session, parts)
	if err != nil {
		stop()
		return nil, err
	}

	end := func() {
		stop()

		if err := export.Close(); err != nil {
			a.Logger.Warn("an export was not cleared away", "request_id", httpx.RequestOf(ctx).ID, "error", err)
		}
	}

	return &httpx.Streamed{Body: func(hctx huma.Context) {
		c := httpx.FiberOf(hctx)
		c.Set(fiber.HeaderContentType, "application/zip")
		c.Set(fiber.HeaderContentDisposition, `attachment; filename="session-`+string(session.ID)+`.zip"`)
		c.Set(fiber.HeaderCacheControl, "no-store")
		conn := c.Context().Conn()
		c.Context().SetBodyStreamWriter(fasthttp.StreamWriter(func(w *bufio.Writer) {
			defer end()

			pulse := httpx.Pulsing(w, conn)
			if err := export.Write(writing, pulse); err != nil { // too late for a status
				a.Logger.Error("an export was broken off", "request_id", httpx.RequestOf(ctx).ID, "session_id", session.ID, "error", err)

				_ = conn.Close()
			}
		}))
	}}, nil
}

func (a *TransferAPI) previewImport(ctx context.Context, in *httpx.FormInput) (*httpx.Body[transfer.ImportPreview], error) {
	ctx, cancel := context.WithTimeout(ctx, transferTime)
	defer cancel()

	archive := httpx.Spooled{Room: a.Room}
	defer archive.Close()

	if _, err := in.Form("file", archive.Keep); err != nil {
		return nil, err
	}

	return httpx.Answer(a.Transfers.Preview(ctx, httpx.CallerOf(ctx).User.ID, archive.File, archive.Size))
}

func (a *TransferAPI) importSession(ctx context.Context, in *httpx.FormInput) (*httpx.Body[importedSession], error) {
	ctx, cancel := context.WithTimeout(ctx, transferTime)
	defer cancel()

	user := httpx.CallerOf(ctx).User

	asked, err := a.uploadArchive(ctx, user, in)
	if err != nil {
		return nil, err
	}

	id, from, err := a.Transfers.Import(ctx, asked)
	if err != nil {
		return nil, httpx.At("body.file", err)
	}

	httpx.Concerns(ctx, string(id), nil)
	session, err := a.Store.OwnSession(ctx, user, id)

	return httpx.Answer(importedSession{a.DetailOf(session, domain.ViewerOwner), from}, err)
}

// uploadArchive stores the archive of a form as it comes, and checks the fields
// besides it. What is refused is discarded.
func (a *TransferAPI) uploadArchive(ctx context.Context, user domain.User, in *httpx.FormInput) (asked transfer.ImportRequest, err error) {
	asked.OwnerID = user.ID
	defer func() {
		if err == nil || asked.Upload.SessionID == "" {
			return
		}

		if _, left := a.Transfers.Discard(ctx, asked.Upload); left != nil {
			a.Logger.Warn("failed to discard an upload; it will be removed later", "request_id", httpx.RequestOf(ctx).ID, "error", left)
		}
	}()

	fields, err := in.Form("file", func(archive io.Reader) error {
		upload, err := a.Transfers.Upload(ctx, user.ID, archive)
		if err == nil {
			asked.Upload = upload
		}

		return err
	})
	if err != nil {
		return asked, err
	}

	const maxName, maxSolution = 100_000, 256
	if asked.Options.Name = fields["name"]; len(asked.Options.Name) > maxName {
		return asked, domain.Invalidf("body.name", "has more than %d characters", maxName)
	}

	if solution := fields["solution_id"]; solution != "" {
		if len(solution) > maxSolution {
			return asked, domain.Invalidf("body.solution_id", "has more than %d characters", maxSolution)
		}

		asked.Options.SolutionID = &solution
	}

	if o := httpx.RequestOf(ctx).Once; o != nil {
		asked.Key = o.Key
	}

	return asked, a.CheckSolution(ctx, asked.Options.SolutionID, nil)
}
