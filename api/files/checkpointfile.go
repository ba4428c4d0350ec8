package files

import (
	"context"
	"io"

	"github.com/gofiber/fiber/v2"

	"everloop/api/access"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
)

// CheckpointFilesAPI reads the files of checkpoints.
type CheckpointFilesAPI struct {
	access.Sessions
	// OpenFile opens a file as it was at a checkpoint; ctx holds for the reading, too.
	OpenFile func(
		ctx context.Context, sessionID domain.SessionID, checkpointID domain.CheckpointID, path string,
	) (io.ReadSeekCloser, domain.FileInfo, error)
}

// Register adds the operations of the area to the interface.
func (a *CheckpointFilesAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID:      "read-checkpoint-file",
		Method:  fiber.MethodGet,
		Path:    "/api/sessions/{session_id}/checkpoints/{checkpoint_id}/files/{file_path}",
		Tag:     "History",
		Summary: "Get a file's content as it was at a checkpoint",
		Description: "As read-file does, with the path and the links of the checkpoint. The content of a file at a checkpoint does " +
			"not change.",
		Scope: auth.Files,
		Errors: httpx.Codes{
			400: httpx.OnPath,
			403: access.CodeFilesWithheld,
			404: "checkpoint_not_found snapshot_not_found file_not_found",
			416: httpx.CodeRange,
			422: httpx.OnRead + " invalid_snapshot snapshot_damaged",
		},
		Headers: map[string]string{
			"ETag": "The version of the file, for If-None-Match.", "Content-Range": "With 206: the bytes that are sent, and the size.",
		},
		Replies: httpx.ContentReplies,
	}, a.read)
}

func (a *CheckpointFilesAPI) read(ctx context.Context, in *struct {
	access.CheckpointRef
	FilePath string `path:"file_path" doc:"Relative to the workspace; slashes are part of it." example:"notes/today.md"`
	httpx.FileRead
},
) (*httpx.Streamed, error) {
	if _, err := a.ReadableFiles(ctx, in.SessionID); err != nil {
		return nil, err
	}

	var info domain.FileInfo

	file, err := httpx.Outliving(ctx, func(ctx context.Context) (file io.ReadSeekCloser, err error) {
		file, info, err = a.OpenFile(ctx, in.SessionID, in.CheckpointID, in.FilePath)
		return file, err
	})
	if err != nil {
		return nil, httpx.At("path.file_path", err)
	}

	return httpx.ServeContent(in.FilePath, file, info, in.Download)
}
