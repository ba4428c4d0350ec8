package production

import (
	"context"
	"encoding/json"

	"github.com/gofiber/fiber/v2"

	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/domain/dag"
	"everloop/domain/production"
)

type graphBody struct {
	DocumentState
	DAG dag.Graph `json:"dag" doc:"The content of the newest version."`
}

type graphVersionBody struct {
	DocumentVersionItem
	DAG dag.Graph `json:"dag" doc:"The content."`
}

type graphDifferenceBody struct {
	From int `json:"from" doc:"The first version." example:"1"`
	To   int `json:"to" doc:"The second version." example:"2"`
	dag.Difference
}

func (a *ProdSolutionsAPI) registerDAG(r *httpx.Server) {
	const base = "/api/prod_solution/dag/{prod_solution_id}"
	httpx.Register(r, httpx.Operation{
		ID: "get-dag", Method: fiber.MethodGet, Path: base, Tag: prodTag,
		Summary: "Get the newest version of the DAG of a production solution",
		Scope:   auth.Solutions,
		Errors:  httpx.Codes{404: "prod_solution_not_found"},
	}, func(ctx context.Context, in *ProdSolutionRef) (*httpx.Body[graphBody], error) {
		stored, content, err := a.graph(ctx, in.ID, 0)
		return httpx.Answer(graphBody{documentState(in.ID, stored), content}, err)
	})
	httpx.Register(r, httpx.Operation{
		ID: "save-dag", Method: fiber.MethodPut, Path: base, Tag: prodTag,
		Summary: "Save the DAG of a production solution as a new version",
		Description: "base_version is the version that the change was made from. If another one was saved in the meantime, the request " +
			"fails with version_conflict, which says who saved it and when. What is not valid yet can be saved; fields that are " +
			"not declared are ignored.",
		Scope:  auth.Solutions,
		Errors: httpx.Codes{403: "forbidden", 404: "prod_solution_not_found", 409: onChange, 413: onSize},
		Example: `{"base_version": 1, "dag": {"nodes": [{"id": "start", "type": "start"}, ` +
			`{"id": "review", "type": "agent", "config": {"prompt": "Review {{input.text}}"}}, {"id": "end", "type": "end"}], ` +
			`"edges": [{"id": "e1", "source": "start", "target": "review"}, {"id": "e2", "source": "review", "target": "end"}]}}`,
	}, func(ctx context.Context, in *struct {
		ProdSolutionRef
		Body struct {
			BaseVersion int       `json:"base_version" minimum:"1" maximum:"2147483647" doc:"The version that the change was made from." example:"1"`
			DAG         dag.Graph `json:"dag" doc:"The content."`
			Message     *string   `json:"message,omitempty" nullable:"true" maxLength:"2000" doc:"A message for the list of versions." example:"First draft"`
		}
	},
	) (*httpx.Body[documentSaved], error) {
		if err := a.auditAdministrator(ctx, in.ID); err != nil {
			return nil, err
		}

		made, found, err := a.Production.SaveDAG(ctx, httpx.CallerOf(ctx).User, in.ID, in.Body.BaseVersion, in.Body.DAG,
			domain.CleanText(fields.Value(in.Body.Message)))

		return httpx.Answer(savedBody(made, found), err)
	})
	httpx.Register(r, httpx.Operation{
		ID: "validate-dag", Method: fiber.MethodPost, Path: base + "/validate", Tag: prodTag,
		Summary: "Validate the DAG of a production solution without saving it",
		Scope:   auth.Solutions,
		Errors:  httpx.Codes{404: "prod_solution_not_found"},
		Example: `{"dag": {"nodes": [{"id": "start", "type": "start"}, {"id": "end", "type": "end"}], ` +
			`"edges": [{"id": "e1", "source": "start", "target": "end"}]}}`,
	}, func(ctx context.Context, in *struct {
		ProdSolutionRef
		Body struct {
			DAG dag.Graph `json:"dag" doc:"The content."`
		}
	},
	) (*httpx.Body[domain.Validation], error) {
		if err := a.auditAdministrator(ctx, in.ID); err != nil {
			return nil, err
		}

		return httpx.Answer(a.Production.ValidateDAG(ctx, httpx.CallerOf(ctx).User, in.ID, in.Body.DAG))
	})
	httpx.Register(r, httpx.Operation{
		ID: "publish-dag", Method: fiber.MethodPost, Path: base + "/publish", Tag: prodTag,
		Summary: "Publish a version of the DAG of a production solution",
		Description: "Without dag, version is published, or the newest one. With dag, it is saved first, on top of version if that is " +
			"given, " +
			"and published. What is not valid is rejected with validation_failed and the result of the validation.",
		Scope: auth.Solutions, Audit: "prod_dag.publish",
		Errors: httpx.Codes{
			403: "forbidden",
			404: "prod_solution_not_found version_not_found", 409: onChange, 413: onSize, 422: domain.CodeValidationFailed,
		},
		Example: `{"version": 2, "message": "Reviewed"}`,
	}, func(ctx context.Context, in *struct {
		ProdSolutionRef
		Body struct {
			DAG     *dag.Graph `json:"dag,omitempty" doc:"The content; left out: that of a stored version."`
			Version *int       `json:"version,omitempty" nullable:"true" minimum:"1" maximum:"2147483647" doc:"The version; left out: the newest one." example:"2"`
			Message *string    `json:"message,omitempty" nullable:"true" maxLength:"2000" doc:"The message of the publication." example:"Reviewed"`
		}
	},
	) (*httpx.Body[production.PublishedDocument], error) {
		published, err := a.Production.PublishDAG(ctx, httpx.CallerOf(ctx).User, in.ID, fields.Value(in.Body.Version), in.Body.DAG,
			domain.CleanText(fields.Value(in.Body.Message)))

		return httpx.Answer(published, err)
	})
	httpx.Register(r, httpx.Operation{
		ID: "get-dag-version", Method: fiber.MethodGet, Path: base + "/versions/{version}", Tag: prodTag,
		Summary: "Get a version of the DAG of a production solution",
		Scope:   auth.Solutions,
		Errors:  httpx.Codes{404: "prod_solution_not_found version_not_found"},
	}, func(ctx context.Context, in *DocumentVersionRef) (*httpx.Body[graphVersionBody], error) {
		stored, content, err := a.graph(ctx, in.ID, in.Version)
		return httpx.Answer(graphVersionBody{versionItem(stored.DocumentVersion), content}, err)
	})
	httpx.Register(r, httpx.Operation{
		ID: "compare-dag-versions", Method: fiber.MethodGet, Path: base + "/diff", Tag: prodTag,
		Summary: "Compare two versions of the DAG of a production solution",
		Scope:   auth.Solutions,
		Errors:  httpx.Codes{404: "prod_solution_not_found version_not_found"},
	}, func(ctx context.Context, in *struct {
		ProdSolutionRef
		DifferenceQuery
	},
	) (*httpx.Body[graphDifferenceBody], error) {
		if err := a.auditAdministrator(ctx, in.ID); err != nil {
			return nil, err
		}

		d, err := a.Production.CompareDAG(ctx, httpx.CallerOf(ctx).User, in.ID, in.From, in.To)

		return httpx.Answer(graphDifferenceBody{in.From, in.To, d}, err)
	})
	a.registerVersions(r, domain.DocumentDAG, "the DAG of a production solution")
}

// graph reads a version with its content; 0: the newest.
func (a *ProdSolutionsAPI) graph(
	ctx context.Context,
	id string,
	version int,
) (stored production.StoredDocument, content dag.Graph, err error) {
	if err = a.auditAdministrator(ctx, id); err != nil {
		return stored, content, err
	}

	stored, err = a.Production.Document(ctx, httpx.CallerOf(ctx).User, id, domain.DocumentDAG, version)
	if err == nil {
		err = json.Unmarshal(stored.Content, &content)
	}

	return stored, content.Listed(), err
}
