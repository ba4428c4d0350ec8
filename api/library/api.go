package library

import (
	"context"

	"everloop/api/access"
	"everloop/api/httpx"
	"everloop/api/sessiondetail"
	"everloop/domain/skill"
	"everloop/service/memories"
	"everloop/service/skills"
)

// API is the area with the services that its operations call.
type API struct {
	Sessions access.Sessions
	Changes  access.FileEvents
	Roles    access.RoleCheck
	Servers  sessiondetail.ToolServers
	Workers  sessiondetail.MCPWorkers
	Memories *memories.Store
	Skills   *skills.Service
	Registry Registry
	GIS      func(ctx context.Context) skill.GISStatus
}

// Register adds the operations of the area to the interface.
func (a API) Register(r *httpx.Server) {
	(&MemoriesAPI{a.Memories}).Register(r)
	(&ToolServersAPI{a.Sessions, a.Servers, a.Workers, r.Config.Auditor, r.Config.Logger}).Register(r)
	(&SolutionsAPI{a.Roles.Solutions, a.Roles.RoleRights}).Register(r)
	(&SkillsAPI{a.Sessions, a.Changes, a.Skills}).Register(r)
	(&RegistryAPI{a.Registry, a.GIS}).Register(r)
}
