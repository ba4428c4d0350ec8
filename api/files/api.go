package files

import (
	"everloop/api/access"
	"everloop/api/httpx"
)

// API is the area with the services that its operations call.
type API struct {
	Sessions    access.Sessions
	Changes     access.FileEvents
	Workspaces  Workspaces
	Checkpoints Checkpoints
	Apps        Apps
	AppRecords  AppRecords
}

// Register adds the operations of the area to the interface.
func (a API) Register(r *httpx.Server) {
	(&WorkspaceAPI{a.Sessions, a.Changes, a.Workspaces, r.Config.Logger}).Register(r)
	(&CheckpointFilesAPI{a.Sessions, a.Checkpoints}).Register(r)
	(&AppsAPI{a.Sessions, a.Apps, a.AppRecords}).Register(r)
}
