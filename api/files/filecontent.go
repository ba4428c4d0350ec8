package files

import (
	"context"

	"everloop/api/httpx"
)

// readFile serves a file of the workspace, or a range of it.
func (a *WorkspaceAPI) readFile(ctx context.Context, in *struct {
	FileRef
	httpx.FileRead
},
) (*httpx.Streamed, error) {
	session, err := a.ReadableFiles(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}

	file, info, err := a.Workspaces.Open(ctx, session, in.FilePath)
	if err != nil {
		return nil, httpx.At("path.file_path", err)
	}

	return httpx.ServeContent(in.FilePath, file, info, in.Download)
}
