package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
)

// fileEntry is one entry of a directory.
type fileEntry struct {
	Name string `json:"name"`
	Type string `json:"type" enum:"file,directory"`
	Size *int64 `json:"size,omitempty" doc:"Bytes; files only."`
}

type dirInput struct {
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
}

func (s *server) listFiles(ctx context.Context, in *dirInput) (*body[[]fileEntry], error) {
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
	return answer(out, err)
}

type writtenFile struct {
	ETag string `header:"ETag"`
	Body successBody
}

func (s *server) writeFile(ctx context.Context, in *struct {
	FileRef
	IfMatch string `header:"If-Match" doc:"Write only over the version with this ETag; * over any version."`
	Body    struct {
		Content string `json:"content"`
	}
},
) (*writtenFile, error) {
	session, err := s.Store.OwnSession(ctx, callerOf(ctx).User, in.SessionID)
	if err != nil {
		return nil, err
	}
	info, change, err := s.Workspaces.Write(ctx, session, in.FilePath, []byte(in.Body.Content), in.IfMatch)
	if err != nil {
		return nil, err
	}
	s.tellFileChange(ctx, session.ID, change)
	return &writtenFile{ETag: info.ETag, Body: successBody{true}}, nil
}

// tellFileChange tells subscribers. The file is changed already, so that a
// fault here is none of the caller's.
func (s *server) tellFileChange(ctx context.Context, sessionID string, change domain.FileChange) {
	if err := s.Store.FileChanged(ctx, sessionID, change); err != nil {
		s.Logger.Warn("change of a file not told", "session_id", sessionID, "error", err)
	}
}

func (s *server) deleteFile(ctx context.Context, in *FileRef) (*body[deletedBody], error) {
	session, err := s.Store.OwnSession(ctx, callerOf(ctx).User, in.SessionID)
	if err != nil {
		return nil, err
	}
	change, err := s.Workspaces.Delete(ctx, session, in.FilePath)
	if err != nil {
		return nil, err
	}
	s.tellFileChange(ctx, session.ID, change)
	return answer(deletedBody{true}, nil)
}
