package api

import (
	"context"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
)

// Workspaces reaches the files of a session's workspace. Paths are relative to
// it; one that leaves it, also through a link, is path_outside_workspace.
type Workspaces interface {
	// List gives a directory's entries, directories first.
	List(ctx context.Context, session domain.Session, dir string) ([]domain.FileInfo, error)
	// Open opens a regular file for reading.
	Open(ctx context.Context, session domain.Session, path string) (io.ReadSeekCloser, domain.FileInfo, error)
	// Write replaces a file or makes it, with its directories. A file that is not
	// as the condition says is stale_file, or file_exists.
	Write(ctx context.Context, session domain.Session, path string, content []byte, only domain.FileCondition) (domain.FileInfo, domain.FileChange, error)
	// Delete removes a file, a directory with what is in it, or a link itself. With
	// ETags, as in If-Match, it must be a file that is still one of them.
	Delete(ctx context.Context, session domain.Session, path, ifMatch string) (domain.FileChange, error)
	// Rename gives an entry, a link as itself, a free name in its directory.
	Rename(ctx context.Context, session domain.Session, path, name string) (to string, changes []domain.FileChange, err error)
	// Copy copies a file or a directory; without a target beside it.
	Copy(ctx context.Context, session domain.Session, path, target string, overwrite bool) (domain.FileChange, error)
	// Share links to a file or a directory from a folder below .share.
	Share(ctx context.Context, session domain.Session, source, name, folder string) (domain.FileLink, domain.FileChange, error)
	// Upload hands each file that receive gives it to the disk, and places them
	// all when receive has given their names; its error leaves nothing behind.
	Upload(ctx context.Context, session domain.Session, dir string, limit int64,
		receive func(add func(content io.Reader) error) (names []string, err error)) ([]domain.FileOutcome, error)
	// Zip checks a directory and gives what writes it as an archive.
	Zip(ctx context.Context, session domain.Session, dir string) (write func(context.Context, io.Writer) error, err error)
}

// fileEntry is one entry of a directory.
type fileEntry struct {
	Name string `json:"name"`
	Type string `json:"type" enum:"file,directory"`
	Size *int64 `json:"size,omitempty" doc:"Bytes; files only."`
}

// DirRef is the path of an operation on one directory.
type DirRef struct {
	SessionRef
	DirPath string `path:"dir_path" doc:"Relative to the workspace; slashes are part of it. Without it, the root."`
}

// FileRef is the path of an operation on one file.
type FileRef struct {
	SessionRef
	FilePath string `path:"file_path" doc:"Relative to the workspace; slashes are part of it."`
}

type successBody struct {
	Success bool `json:"success"`
}

func (s *server) fileRoutes() {
	const path, tag = "/api/sessions/{session_id}", "Files"
	op := func(id, method, rest, summary string) operation {
		return operation{id: id, method: method, path: path + rest, tag: tag, summary: summary, scope: auth.Files}
	}
	add(s, op("list-files", fiber.MethodGet, "/ls/{dir_path}", "The entries of a directory, directories first"), s.listFiles)
	read := op("read-file", fiber.MethodGet, "/files/{file_path}", "A file's content; ETag, If-None-Match and Range are honoured")
	read.changes = func(op *huma.Operation) {
		describeAs(http.StatusOK, "application/octet-stream")(op)
		describeAs(http.StatusPartialContent, "application/octet-stream")(op)
		putResponse(op, http.StatusNotModified, nil)
	}
	add(s, read, s.readFile)
	add(s, op("write-file", fiber.MethodPut, "/files/{file_path}", "Write a text file; its directories are made"), s.writeFile)
	add(s, op("delete-file", fiber.MethodDelete, "/files/{file_path}", "Delete a file, a link or a directory with all that is in it"), s.deleteFile)
	add(s, op("rename-file", fiber.MethodPost, "/files/{file_path}/rename", "Give a file, a link or a directory another name in its directory"), s.renameFile)
	duplicate := op("copy-file", fiber.MethodPost, "/files/{file_path}/copy", "Copy a file, or a directory with all that is in it")
	duplicate.stream = true // a large one takes its time
	add(s, duplicate, s.copyFile)
	add(s, op("share-file", fiber.MethodPost, "/share-file", "Link to a file or a directory from below .share"), s.shareFile)
	upload := op("upload-files", fiber.MethodPost, "/upload/{dir_path}", "Upload files as a form; those that exist are replaced")
	upload.stream = true
	add(s, upload, s.uploadFiles)
	describeUpload(s.huma.OpenAPI().Paths[upload.path].Post)
	download := op("download-directory", fiber.MethodGet, "/download-dir/{dir_path}", "A directory as a ZIP archive")
	download.stream, download.changes = true, describeAs(http.StatusOK, "application/zip")
	add(s, download, s.downloadDirectory)
}

func (s *server) listFiles(ctx context.Context, in *DirRef) (*body[[]fileEntry], error) {
	session, _, err := s.readable(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}
	entries, err := s.Workspaces.List(ctx, session, in.DirPath)
	out := make([]fileEntry, len(entries))
	for i, e := range entries {
		out[i] = fileEntry{Name: e.Name, Type: "directory"}
		if !e.Dir {
			out[i].Type, out[i].Size = "file", &e.Size
		}
	}
	return answer(out, at("path.dir_path", err))
}

type writtenFile struct {
	ETag string `header:"ETag"`
	Body successBody
}

func (s *server) writeFile(ctx context.Context, in *struct {
	FileRef
	IfMatch     string `header:"If-Match" doc:"Write only over the version with this ETag; * over any version."`
	IfNoneMatch string `header:"If-None-Match" enum:"*" doc:"*: only if there is no such file."`
	Body        struct {
		Content string `json:"content"`
	}
},
) (*writtenFile, error) {
	session, err := s.Store.OwnSession(ctx, callerOf(ctx).User, in.SessionID)
	if err != nil {
		return nil, err
	}
	only := domain.FileCondition{IfMatch: in.IfMatch, Absent: in.IfNoneMatch != ""}
	info, change, err := s.Workspaces.Write(ctx, session, in.FilePath, []byte(in.Body.Content), only)
	if err != nil {
		return nil, at("path.file_path", err)
	}
	s.tellFileChange(ctx, session.ID, change)
	return &writtenFile{ETag: info.ETag, Body: successBody{true}}, nil
}

// tellFileChange tells subscribers. The files are changed already, so that a
// fault here is none of the caller's.
func (s *server) tellFileChange(ctx context.Context, sessionID string, changes ...domain.FileChange) {
	for _, change := range changes {
		if err := s.Store.FileChanged(ctx, sessionID, change); err != nil {
			s.Logger.Warn("change of a file not told", "session_id", sessionID, "error", err)
			return
		}
	}
}

func (s *server) deleteFile(ctx context.Context, in *struct {
	FileRef
	IfMatch string `header:"If-Match" doc:"Delete only the version with this ETag."`
},
) (*body[deletedBody], error) {
	session, err := s.Store.OwnSession(ctx, callerOf(ctx).User, in.SessionID)
	if err != nil {
		return nil, err
	}
	change, err := s.Workspaces.Delete(ctx, session, in.FilePath, in.IfMatch)
	if err != nil {
		return nil, at("path.file_path", err)
	}
	s.tellFileChange(ctx, session.ID, change)
	return answer(deletedBody{true}, nil)
}
