package production

import (
	"context"

	"everloop/api/access"
	"everloop/api/httpx"
	"everloop/api/sessiondetail"
	"everloop/domain"
	"everloop/service/agents"
	boards "everloop/service/board"
	"everloop/service/dagruns"
	documents "everloop/service/production"
	"everloop/service/schedules"
	"everloop/service/triggers"
	"everloop/service/webhooks"
)

// API is the area with the services that its operations call.
type API struct {
	Sessions      access.Sessions
	Roles         access.RoleCheck
	Views         sessiondetail.SessionViews
	Deleter       func(ctx context.Context, id domain.SessionID) error
	Production    *documents.Service
	DAGRuns       *dagruns.Service
	DAGRunRecords DAGRunRecords
	Schedules     *schedules.Service
	Agents        *agents.Service
	Triggers      *triggers.Service
	Webhooks      *webhooks.Service
	Boards        Boards
	Board         *boards.Service
}

// Register adds the operations of the area to the interface.
func (a API) Register(r *httpx.Server) {
	solutions := &ProdSolutionsAPI{a.Sessions, a.Production, a.DAGRuns}

	solutions.Register(r)
	(&DagRunsAPI{solutions, a.DAGRuns, a.DAGRunRecords, r.Streams}).Register(r)
	(&SchedulesAPI{a.Schedules}).Register(r)
	(&AgentsAPI{a.Agents, a.Roles.Solutions, a.Roles.RoleRights}).Register(r)
	(&AgentInstancesAPI{a.Agents}).Register(r)
	(&TriggersAPI{a.Triggers}).Register(r)
	(&WebhooksAPI{a.Webhooks}).Register(r)
	(&ProdWorkspacesAPI{a.Sessions, a.Roles, a.Views, a.Boards, a.Board, a.Agents, a.Deleter, r.Config.Rights}).Register(r)
	(&IssuesAPI{a.Boards, a.Board}).Register(r)
}
