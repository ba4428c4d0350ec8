package files

import (
	"context"
	"io"

	"everloop/api/access"
	"everloop/api/httpx"
	"everloop/domain"
	"everloop/infra/workspace/sessionfiles"
)

// API is the area with the services that its operations call.
type API struct {
	Sessions   access.Sessions
	Changes    access.FileEvents
	Workspaces sessionfiles.Files
	Apps       Apps
	// OpenFile opens a file as it was at a checkpoint; ctx holds for the reading, too.
	OpenFile func(
		ctx context.Context, sessionID domain.SessionID, checkpointID domain.CheckpointID, path string,
	) (io.ReadSeekCloser, domain.FileInfo, error)
}

// Register adds the operations of the area to the interface.
func (a API) Register(r *httpx.Server) {
	(&WorkspaceAPI{a.Sessions, a.Changes, a.Workspaces, r.Config.Logger}).Register(r)
	(&CheckpointFilesAPI{a.Sessions, a.OpenFile}).Register(r)
	(&AppsAPI{a.Sessions, a.Apps}).Register(r)
}
