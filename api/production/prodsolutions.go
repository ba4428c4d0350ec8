package production

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"everloop/api/access"
	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/domain/production"
	"everloop/service/dagruns"
	documents "everloop/service/production"
)

// ProdSolutionRef is the path of an operation on one production solution.
type ProdSolutionRef struct {
	ID string `path:"prod_solution_id" maxLength:"128" doc:"The production solution." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
}

type newProdSolutionBody struct {
	Name        string  `json:"name" minLength:"1" maxLength:"200" doc:"Its name." example:"Nightly review"`
	Description *string `json:"description,omitempty" nullable:"true" maxLength:"20000" doc:"The description."`

	SessionID             *domain.SessionID `json:"session_id,omitempty" nullable:"true" maxLength:"128" doc:"A session of the caller that belongs to it."`
	FlowSessionID         *domain.SessionID `json:"flow_session_id,omitempty" nullable:"true" maxLength:"128" doc:"A session of the caller for work on its DAG."`
	ArchitectureSessionID *domain.SessionID `json:"architecture_session_id,omitempty" nullable:"true" maxLength:"128" doc:"A session of the caller for work on its architecture."`

	AIAssist             bool  `json:"ai_assist,omitempty" default:"false" doc:"Whether the agent of session_id edits the DAG and the architecture."`
	FlowAIAssist         *bool `json:"flow_ai_assist,omitempty" nullable:"true" doc:"Whether the agent of flow_session_id edits the DAG."`
	ArchitectureAIAssist bool  `json:"architecture_ai_assist,omitempty" default:"false" doc:"Whether the agent of architecture_session_id edits the architecture."`
}

type prodSolutionChange struct {
	Name        *string                    `json:"name,omitempty" minLength:"1" maxLength:"200" doc:"Its name." example:"Nightly review"`
	Description *string                    `json:"description,omitempty" maxLength:"20000" doc:"The description."`
	Status      *production.SolutionStatus `json:"status,omitempty" enum:"draft,published,archived" doc:"The new status."`

	AIAssist             *bool `json:"ai_assist,omitempty" doc:"Whether the agent of session_id edits the DAG and the architecture."`
	FlowAIAssist         *bool `json:"flow_ai_assist,omitempty" doc:"Whether the agent of flow_session_id edits the DAG."`
	ArchitectureAIAssist *bool `json:"architecture_ai_assist,omitempty" doc:"Whether the agent of architecture_session_id edits the architecture."`
}

// ProdSolutionsAPI manages production solutions.
type ProdSolutionsAPI struct {
	access.Sessions
	Production *documents.Service
	Runs       *dagruns.Service
}

const prodTag = "Production solutions"

// Register adds the operations of the area to the interface.
func (a *ProdSolutionsAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "create-prod-solution", Method: fiber.MethodPost, Path: "/api/prod_solution", Tag: prodTag,
		Summary: "Create a production solution",
		Description: "Version 1 of its DAG and of its architecture is empty. With ai_assist, flow_ai_assist or architecture_ai_assist, " +
			"the agent " +
			"of the session gets tools that read and edit the document; without a session, one is made.",
		Scope: auth.Solutions, Audit: "prod_solution.create",
		Errors: httpx.Codes{
			403: "forbidden", 404: "session_not_found", 409: "prod_solution_limit", 413: "document_quota",
		},
		Example: `{"name": "Nightly review", "description": "Three agents review the changes of a day."}`,
	}, a.createProdSolution)
	httpx.Register(r, httpx.Operation{
		ID: "list-prod-solutions", Method: fiber.MethodGet, Path: "/api/prod_solution", Tag: prodTag,
		Summary: "List the caller's production solutions, newest first",
		Scope:   auth.Solutions,
	}, a.listProdSolutions)
	httpx.Register(r, httpx.Operation{
		ID: "get-prod-solution", Method: fiber.MethodGet, Path: "/api/prod_solution/{prod_solution_id}", Tag: prodTag,
		Summary: "Get a production solution",
		Scope:   auth.Solutions,
		Errors:  httpx.Codes{404: "prod_solution_not_found"},
	}, func(ctx context.Context, in *ProdSolutionRef) (*httpx.Body[production.Solution], error) {
		if err := a.auditAdministrator(ctx, in.ID); err != nil {
			return nil, err
		}

		return httpx.Answer(a.Production.ProdSolution(ctx, httpx.CallerOf(ctx).User, in.ID))
	})
	httpx.Register(r, httpx.Operation{
		ID: "change-prod-solution", Method: fiber.MethodPatch, Path: "/api/prod_solution/{prod_solution_id}", Tag: prodTag,
		Summary: "Update a production solution",
		Description: "A draft can become published, once a version of its DAG is; a draft or a published solution can become archived, " +
			"and any other a draft. The documents of an archived one cannot be changed.",
		Scope: auth.Solutions, Audit: "prod_solution.change",
		Errors:  httpx.Codes{403: "forbidden", 404: "prod_solution_not_found", 409: "invalid_status_move"},
		Example: `{"status": "archived"}`,
	}, a.changeProdSolution)
	httpx.Register(r, httpx.Operation{
		ID: "delete-prod-solution", Method: fiber.MethodDelete, Path: "/api/prod_solution/{prod_solution_id}", Tag: prodTag,
		Summary: "Delete a production solution",
		Description: "All versions of its documents and its runs are deleted with it; its sessions stay. Runs that are not over " +
			"are cancelled first.",
		Scope: auth.Solutions, Audit: "prod_solution.delete",
		Errors: httpx.Codes{403: "forbidden", 404: "prod_solution_not_found", 409: "prod_solution_running"},
	}, func(ctx context.Context, in *ProdSolutionRef) (*httpx.Body[fields.OkBody], error) {
		return httpx.Answer(fields.OkBody{OK: true}, a.Runs.DeleteSolution(ctx, httpx.CallerOf(ctx).User, in.ID))
	})
	httpx.Register(r, httpx.Operation{
		ID: "bind-prod-solution-session", Method: fiber.MethodPut, Path: "/api/prod_solution/{prod_solution_id}/session", Tag: prodTag,
		Summary: "Set the session that belongs to a production solution",
		Scope:   auth.Solutions, Audit: "prod_solution.change",
		Errors:  httpx.Codes{403: "forbidden", 404: "prod_solution_not_found session_not_found"},
		Example: `{"session_id": "01a1ff63-2e0c-7d30-8650-39ac67aaafb7"}`,
	}, a.bindSession)
	a.registerDAG(r)
	a.registerArchitecture(r)
}

// auditAdministrator records that an administrator comes to the solution of another
// user, before anything is shown or changed.
func (a *ProdSolutionsAPI) auditAdministrator(ctx context.Context, id string) error {
	user := httpx.CallerOf(ctx).User
	if !user.Administrator {
		return nil
	}

	found, err := a.Production.ProdSolution(ctx, user, id)
	if err != nil || found.OwnerID == user.ID {
		return err
	}

	request := httpx.RequestOf(ctx)
	details := map[string]string{"edge": string(auth.EdgeREST), "route": request.Route, "request_id": request.ID}

	return a.Auditor.Write(ctx, user.ID, "prod_solution.access", id, details)
}

func (a *ProdSolutionsAPI) createProdSolution(
	ctx context.Context,
	in *struct{ Body newProdSolutionBody },
) (*httpx.Body[production.Solution], error) {
	b := in.Body

	made := production.NewSolution{
		OwnerID:     httpx.CallerOf(ctx).User.ID,
		Name:        domain.CleanText(b.Name),
		Description: domain.CleanText(fields.Value(b.Description)),
		SessionID: fields.OrNil(
			b.SessionID,
		),
		FlowSessionID:         fields.OrNil(b.FlowSessionID),
		ArchitectureSessionID: fields.OrNil(b.ArchitectureSessionID),
		AIAssist:              b.AIAssist,
		FlowAIAssist:          fields.Value(b.FlowAIAssist),
		ArchitectureAIAssist:  b.ArchitectureAIAssist,
	}
	for _, id := range []*domain.SessionID{made.SessionID, made.FlowSessionID, made.ArchitectureSessionID} {
		if id == nil {
			continue
		}

		if _, err := a.Own(ctx, *id); err != nil {
			return nil, err
		}
	}

	for _, place := range []assistedSession{
		{&made.SessionID, made.AIAssist, "Assistant"},
		{&made.FlowSessionID, made.FlowAIAssist, "DAG"},
		{&made.ArchitectureSessionID, made.ArchitectureAIAssist, "Architecture"},
	} {
		if err := a.ensureSession(ctx, made.Name, place); err != nil {
			return nil, err
		}
	}

	solution, err := a.Production.Create(ctx, made)
	if err == nil {
		httpx.Concerns(ctx, solution.ID, map[string]string{"name": solution.Name})
	}

	return httpx.Answer(solution, err)
}

func (a *ProdSolutionsAPI) listProdSolutions(ctx context.Context, in *struct {
	Offset int `query:"offset" default:"0" minimum:"0" doc:"Number of entries to skip." example:"0"`
	Limit  int `query:"limit" default:"1000" minimum:"1" maximum:"1000" doc:"Maximum number of entries." example:"20"`
},
) (*httpx.Body[fields.List[production.Solution]], error) {
	page, total, err := a.Production.ProdSolutions(ctx, httpx.CallerOf(ctx).User.ID, in.Limit, in.Offset)
	return httpx.Answer(fields.List[production.Solution]{Items: fields.OrEmpty(page), Total: total}, err)
}

func (a *ProdSolutionsAPI) changeProdSolution(ctx context.Context, in *struct {
	ProdSolutionRef
	Body prodSolutionChange
},
) (*httpx.Body[production.Solution], error) {
	caller := httpx.CallerOf(ctx).User

	change := production.SolutionChange{
		Status: in.Body.Status, Name: fields.Cleaned(in.Body.Name), Description: fields.Cleaned(in.Body.Description),
		AIAssist: in.Body.AIAssist, FlowAIAssist: in.Body.FlowAIAssist, ArchitectureAIAssist: in.Body.ArchitectureAIAssist,
	}
	if err := a.assistingSessions(ctx, caller, in.ID, &change); err != nil {
		return nil, err
	}

	return httpx.Answer(a.Production.ChangeProdSolution(ctx, caller, in.ID,
		func(found production.Solution) (production.SolutionChange, error) {
			if change.Status != nil {
				return change, found.Move(*change.Status)
			}

			return change, nil
		}))
}

func (a *ProdSolutionsAPI) bindSession(ctx context.Context, in *struct {
	ProdSolutionRef
	Body struct {
		SessionID domain.SessionID `json:"session_id" minLength:"1" maxLength:"128" doc:"A session of the caller." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	}
},
) (*httpx.Body[fields.OkBody], error) {
	caller := httpx.CallerOf(ctx).User
	if _, err := a.Production.ProdSolution(ctx, caller, in.ID); err != nil {
		return nil, err
	}

	session, err := a.Own(ctx, in.Body.SessionID)
	if err != nil {
		return nil, err
	}

	_, err = a.Production.ChangeProdSolution(ctx, caller, in.ID, func(found production.Solution) (production.SolutionChange, error) {
		if found.OwnerID != session.OwnerID {
			return production.SolutionChange{}, domain.Newf(domain.Forbidden, "forbidden",
				"the session belongs to another user than the production solution")
		}

		return production.SolutionChange{SessionID: &session.ID}, nil
	})
	httpx.Concerns(ctx, in.ID, map[string]string{"session_id": string(session.ID)})

	return httpx.Answer(fields.OkBody{OK: true}, err)
}
