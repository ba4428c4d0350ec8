package production

import (
	"everloop/api/access"
	"everloop/api/httpx"
	"everloop/api/sessiondetail"
)

// API is the area with the services that its operations call.
type API struct {
	Sessions      access.Sessions
	Roles         access.RoleCheck
	Views         sessiondetail.SessionViews
	Deleter       access.Deleter
	ProdSolutions ProdSolutions
	Production    Production
	DAGRuns       DAGRuns
	DAGRunRecords DAGRunRecords
	Schedules     Schedules
	Agents        Agents
	Instances     InstanceReader
	Webhooks      Webhooks
	Boards        Boards
	Board         Board
}

// Register adds the operations of the area to the interface.
func (a API) Register(r *httpx.Server) {
	solutions := &ProdSolutionsAPI{a.Sessions, a.ProdSolutions, a.Production, a.DAGRuns}

	solutions.Register(r)
	(&DagRunsAPI{solutions, a.DAGRuns, a.DAGRunRecords, r.Config.Auth, r.Streams}).Register(r)
	(&SchedulesAPI{a.Schedules}).Register(r)
	(&AgentsAPI{a.Agents, a.Roles.Solutions, a.Roles.RoleRights}).Register(r)
	(&AgentInstancesAPI{a.Agents}).Register(r)
	(&WebhooksAPI{a.Webhooks}).Register(r)
	(&ProdWorkspacesAPI{a.Sessions, a.Roles, a.Views, a.Boards, a.Board, a.Instances, a.Deleter, r.Config.Rights}).Register(r)
	(&IssuesAPI{a.Boards, a.Board}).Register(r)
}
