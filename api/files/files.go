package files

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"everloop/api/access"
	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/infra/workspace/sessionfiles"
)

// fileEntry is one entry of a directory.
type fileEntry struct {
	Name string `json:"name" doc:"Its name." example:".everloop"`
	Type string `json:"type" enum:"file,directory" doc:"The type."`
	Size *int64 `json:"size,omitempty" doc:"Bytes; files only."`
}

// DirRef is the path of an operation on one directory.
type DirRef struct {
	access.SessionRef
	DirPath string `path:"dir_path" doc:"Relative to the workspace; slashes are part of it. Without it, the root." example:"notes"`
}

// FileRef is the path of an operation on one file.
type FileRef struct {
	access.SessionRef
	FilePath string `path:"file_path" doc:"Relative to the workspace; slashes are part of it." example:"notes/today.md"`
}

type successBody struct {
	Success bool `json:"success" doc:"Whether it succeeded."`
}

// WorkspaceAPI reads and writes the files of workspaces.
type WorkspaceAPI struct {
	access.Sessions
	access.FileEvents
	Workspaces sessionfiles.Files
	Logger     *slog.Logger
}

// Register adds the operations of the area to the interface.
func (a *WorkspaceAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "list-files", Method: fiber.MethodGet, Path: "/api/sessions/{session_id}/ls/{dir_path}", Tag: "Files",
		Summary:     "List the entries of a directory, directories first",
		Description: "Without a directory, lists the root of the workspace.",
		Scope:       auth.Files,
		Errors:      httpx.Codes{400: httpx.OnPath, 403: "file_permission_denied", 404: "file_not_found", 422: httpx.OnRead},
	}, a.listFiles)
	httpx.Register(r, httpx.Operation{
		ID:      "read-file",
		Method:  fiber.MethodGet,
		Path:    "/api/sessions/{session_id}/files/{file_path}",
		Tag:     "Files",
		Summary: "Get a file's content",
		Description: "Supports ETag, If-None-Match and Range. A request for several ranges returns the whole file. HTML and XML are " +
			"sent with a Content-Security-Policy that denies them the service's cookies.",
		Scope: auth.Files,
		Errors: httpx.Codes{
			400: httpx.OnPath,
			403: "file_permission_denied " + access.CodeFilesWithheld,
			404: "file_not_found",
			416: httpx.CodeRange,
			422: httpx.OnRead,
		},
		Headers: map[string]string{
			"ETag": "The version of the file, for If-Match and If-None-Match.", "Content-Range": "With 206: the bytes that are sent, " +
				"and the size.",
		},
		Replies: httpx.ContentReplies,
	}, a.readFile)
	httpx.Register(r, httpx.Operation{
		ID: "write-file", Method: fiber.MethodPut, Path: "/api/sessions/{session_id}/files/{file_path}", Tag: "Files",
		Summary: "Write a text file and create its directories",
		Description: "With If-Match, replaces only the version with that ETag; with If-None-Match: *, writes only a file that does " +
			"not exist.",
		Scope: auth.Files,
		Errors: httpx.Codes{
			400: httpx.OnPath,
			403: "file_permission_denied",
			404: "file_not_found",
			409: "stale_file file_exists session_busy",
			413: httpx.OnDisk,
			422: httpx.OnRead + " invalid_path",
			503: "disk_full",
		},
		Headers: map[string]string{"ETag": "The version of the file that was written."},
		Example: `{"content": "# Today\n"}`,
	}, a.writeFile)
	httpx.Register(r, httpx.Operation{
		ID:          "delete-file",
		Method:      fiber.MethodDelete,
		Path:        "/api/sessions/{session_id}/files/{file_path}",
		Tag:         "Files",
		Summary:     "Delete a file, a link or a directory with its content",
		Description: "A link itself is deleted, not its target.",
		Scope:       auth.Files,
		Audit:       "file.delete",
		Errors: httpx.Codes{
			400: httpx.OnPath,
			403: "file_permission_denied",
			404: "file_not_found",
			409: "stale_file session_busy",
			422: httpx.OnRead,
		},
	}, a.deleteFile)
	httpx.Register(r, httpx.Operation{
		ID: "rename-file", Method: fiber.MethodPost, Path: "/api/sessions/{session_id}/files/{file_path}/rename", Tag: "Files",
		Summary:     "Rename a file, a link or a directory within its directory",
		Description: "A name that is in use is rejected with file_exists.",
		Scope:       auth.Files,
		Errors: httpx.Codes{
			400: httpx.OnPath,
			403: "file_permission_denied",
			404: "file_not_found",
			409: "file_exists session_busy",
			413: httpx.OnDisk,
			422: httpx.OnRead + " invalid_path",
			503: "disk_full",
		},
		Example: `{"new_name": "later.md"}`,
	}, a.renameFile)
	httpx.Register(r, httpx.Operation{
		ID: "copy-file", Method: fiber.MethodPost, Path: "/api/sessions/{session_id}/files/{file_path}/copy", Tag: "Files",
		Summary: "Copy a file, or a directory with its content",
		Scope:   auth.Files, Stream: true,
		Errors: httpx.Codes{
			400: httpx.OnPath,
			403: "file_permission_denied",
			404: "file_not_found",
			409: "file_exists directory_not_empty session_busy",
			413: httpx.OnDisk,
			422: httpx.OnRead + " invalid_path",
			503: "disk_full",
		},
		Example: `{"target_path": "notes/tomorrow.md", "overwrite": false}`,
	}, a.copyFile)
	httpx.Register(r, httpx.Operation{
		ID: "share-file", Method: fiber.MethodPost, Path: "/api/sessions/{session_id}/share-file", Tag: "Files",
		Summary:     "Link to a file or a directory from below .share",
		Description: "The link is a symbolic link in the workspace.",
		Scope:       auth.Files,
		Errors: httpx.Codes{
			400: httpx.OnPath,
			403: "file_permission_denied",
			404: "file_not_found",
			409: "file_exists session_busy",
			413: httpx.OnDisk,
			422: httpx.OnRead,
			503: "disk_full",
		},
		Example: `{"source_path": "notes/today.md", "share_folder": "team"}`,
	}, a.shareFile)
	httpx.Register(r, httpx.Operation{
		ID:      "upload-files",
		Method:  fiber.MethodPost,
		Path:    "/api/sessions/{session_id}/upload/{dir_path}",
		Tag:     "Files",
		Summary: "Upload files as a form, replacing existing ones",
		Description: "Each file succeeds or fails by itself; failed lists the files that failed, with the reason. A slow upload is " +
			"accepted as long as the client keeps sending.",
		Scope:  auth.Files,
		Stream: true,
		Errors: httpx.Codes{
			400: httpx.OnPath,
			403: "file_permission_denied",
			404: "file_not_found",
			409: "session_busy",
			413: httpx.OnDisk,
			422: httpx.OnRead,
			503: "disk_full",
		},
		Form: &httpx.Form{
			File: "files", Many: "One part for each file, at most 512 MB each.",
			Fields: map[string]string{
				"paths": "JSON array with the path of each file, relative to the directory. Default: the names of the files.",
			},
		},
		Example: `{"files": ["table.csv", "x"], "paths": "[\"table.csv\",\"../x\"]"}`,
	}, a.uploadFiles)
	httpx.Register(r, httpx.Operation{
		ID:          "download-directory",
		Method:      fiber.MethodGet,
		Path:        "/api/sessions/{session_id}/download-dir/{dir_path}",
		Tag:         "Files",
		Summary:     "Download a directory as a ZIP archive",
		Description: "The archive is created while it is sent: a download that was cut off is not a valid archive.",
		Scope:       auth.Files,
		Stream:      true,
		Errors: httpx.Codes{
			400: httpx.OnPath,
			403: "file_permission_denied " + access.CodeFilesWithheld,
			404: "file_not_found",
			422: httpx.OnRead,
		},
		Headers: map[string]string{"Content-Disposition": "attachment, with the name of the directory."},
		Replies: []httpx.Reply{{Status: http.StatusOK, Types: []string{"application/zip"}}},
	}, a.downloadDirectory)
}

func (a *WorkspaceAPI) listFiles(ctx context.Context, in *DirRef) (*httpx.Body[[]fileEntry], error) {
	session, _, err := a.Readable(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}

	entries, err := a.Workspaces.List(ctx, session, in.DirPath)

	out := make([]fileEntry, len(entries))
	for i, e := range entries {
		out[i] = fileEntry{Name: e.Name, Type: "directory"}
		if !e.Dir {
			out[i].Type, out[i].Size = "file", &e.Size
		}
	}

	return httpx.Answer(out, httpx.At("path.dir_path", err))
}

type writtenFile struct {
	ETag string `header:"ETag"`
	Body successBody
}

func (a *WorkspaceAPI) writeFile(ctx context.Context, in *struct {
	FileRef
	IfMatch     string `header:"If-Match" doc:"Write only over the version with this ETag; * over any version." example:"\"5d41402abc4b2a76\""`
	IfNoneMatch string `header:"If-None-Match" enum:"*" doc:"*: only if there is no such file."`
	Body        struct {
		Content string `json:"content" doc:"The whole content of the file, as text."`
	}
},
) (*writtenFile, error) {
	session, err := a.Own(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}

	only := domain.FileCondition{IfMatch: in.IfMatch, Absent: in.IfNoneMatch != ""}

	info, change, err := a.Workspaces.Write(ctx, session, in.FilePath, []byte(in.Body.Content), only)
	if err != nil {
		return nil, httpx.At("path.file_path", err)
	}

	a.EmitFileChange(ctx, session.ID, change)

	return &writtenFile{ETag: info.ETag, Body: successBody{true}}, nil
}

func (a *WorkspaceAPI) deleteFile(ctx context.Context, in *struct {
	FileRef
	IfMatch string `header:"If-Match" doc:"Delete only the version with this ETag." example:"\"5d41402abc4b2a76\""`
},
) (*httpx.Body[fields.DeletedBody], error) {
	session, err := a.Own(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}

	change, err := a.Workspaces.Delete(ctx, session, in.FilePath, in.IfMatch)
	if err != nil {
		return nil, httpx.At("path.file_path", err)
	}

	a.EmitFileChange(ctx, session.ID, change)
	httpx.Concerns(ctx, string(session.ID), map[string]string{"path": in.FilePath})

	return httpx.Answer(fields.DeletedBody{Deleted: true}, nil)
}
