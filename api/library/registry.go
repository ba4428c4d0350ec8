package library

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain/skill"
)

// Registry is the skill registry as clients look at it. Without one each call
// fails as unavailable, with the code registry_not_configured.
type Registry interface {
	Resources(ctx context.Context, q skill.RegistryQuery) (page []skill.RegistryResource, total int, err error)
	Resource(ctx context.Context, id string) (skill.RegistryResource, error)
	Organizations(ctx context.Context) ([]skill.RegistryOrganization, error)
	Templates(ctx context.Context) ([]skill.RegistryTemplate, error)
	Template(ctx context.Context, typeKey, subtype, driver string) (skill.RegistryTemplate, error)
	Scenarios(ctx context.Context, limit int) ([]skill.RegistryScenario, error)
	StoreStats(ctx context.Context) (skill.RegistryStats, error)
}

type resourcePage struct {
	Items []skill.RegistryResource `json:"items" nullable:"false" doc:"The entries of this page."`
	Total int                      `json:"total" doc:"Total number of entries." example:"1"`
}

type scenarioList struct {
	Items []skill.RegistryScenario `json:"items" nullable:"false" doc:"The entries of this page."`
}

// RegistryAPI browses the skill registry.
type RegistryAPI struct {
	Registry Registry
	Gis      func(ctx context.Context) skill.GISStatus
}

// Register adds the operations of the area to the interface.
func (a *RegistryAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "list-registry-resources", Method: fiber.MethodGet, Path: "/api/registry/resources", Tag: "Registry",
		Summary: "List the resources of the registry",
		Scope:   auth.Skills,
		Errors:  httpx.Codes{503: "registry_not_configured"},
	}, a.listResources)
	httpx.Register(r, httpx.Operation{
		ID: "get-registry-resource", Method: fiber.MethodGet, Path: "/api/registry/resources/{id}", Tag: "Registry",
		Summary: "Get a resource of the registry",
		Scope:   auth.Skills,
		Errors:  httpx.Codes{404: "resource_not_found", 503: "registry_not_configured"},
	},
		func(ctx context.Context, in *struct {
			ID string `path:"id" maxLength:"200" doc:"The resource." example:"agent-template.basic"`
		},
		) (*httpx.Body[skill.RegistryResource], error) {
			return httpx.Answer(a.Registry.Resource(ctx, in.ID))
		})
	httpx.Register(r, httpx.Operation{
		ID: "list-registry-organizations", Method: fiber.MethodGet, Path: "/api/registry/organizations", Tag: "Registry",
		Summary: "List the publishers of skills",
		Scope:   auth.Skills,
		Errors:  httpx.Codes{503: "registry_not_configured"},
	},
		func(ctx context.Context, _ *struct{}) (*httpx.Body[fields.List[skill.RegistryOrganization]], error) {
			found, err := a.Registry.Organizations(ctx)
			return httpx.Answer(fields.ListOf(found), err)
		})
	httpx.Register(r, httpx.Operation{
		ID: "list-registry-templates", Method: fiber.MethodGet, Path: "/api/registry/templates", Tag: "Registry",
		Summary: "List the templates of the registry",
		Scope:   auth.Skills,
		Errors:  httpx.Codes{503: "registry_not_configured"},
	},
		func(ctx context.Context, _ *struct{}) (*httpx.Body[fields.List[skill.RegistryTemplate]], error) {
			found, err := a.Registry.Templates(ctx)
			for i := range found {
				found[i] = whole(found[i])
			}

			return httpx.Answer(fields.ListOf(found), err)
		})
	httpx.Register(r, httpx.Operation{
		ID: "get-registry-template", Method: fiber.MethodGet, Path: "/api/registry/templates/{type_key}/{subtype}", Tag: "Registry",
		Summary: "Get a template of the registry",
		Scope:   auth.Skills,
		Errors:  httpx.Codes{404: "template_not_found", 503: "registry_not_configured"},
	}, a.template)
	httpx.Register(r, httpx.Operation{
		ID: "list-registry-scenarios", Method: fiber.MethodGet, Path: "/api/registry/scenarios", Tag: "Registry",
		Summary: "List bundles of resources for a purpose",
		Scope:   auth.Skills,
		Errors:  httpx.Codes{503: "registry_not_configured"},
	},
		func(ctx context.Context, in *struct {
			Limit int `query:"limit" default:"500" minimum:"1" maximum:"2000" doc:"Maximum number of entries." example:"20"`
		},
		) (*httpx.Body[scenarioList], error) {
			found, err := a.Registry.Scenarios(ctx, in.Limit)
			return httpx.Answer(scenarioList{fields.OrEmpty(found)}, err)
		})
	httpx.Register(r, httpx.Operation{
		ID: "get-skill-store-stats", Method: fiber.MethodGet, Path: "/api/registry/skill-store/stats", Tag: "Registry",
		Summary: "Get statistics of the registry",
		Scope:   auth.Skills,
		Errors:  httpx.Codes{503: "registry_not_configured"},
	},
		func(ctx context.Context, _ *struct{}) (*httpx.Body[skill.RegistryStats], error) {
			return httpx.Answer(a.Registry.StoreStats(ctx))
		})
	httpx.Register(r, httpx.Operation{
		ID: "get-gis-status", Method: fiber.MethodGet, Path: "/api/gis/status", Tag: "Service",
		Summary: "Get the GIS status",
		Scope:   auth.SessionsRead,
	}, func(ctx context.Context, _ *struct{}) (*httpx.Body[skill.GISStatus], error) {
		return httpx.Answer(a.Gis(ctx), nil)
	})
}

func (a *RegistryAPI) listResources(ctx context.Context, in *struct {
	Type    string `query:"type" maxLength:"255" doc:"Only resources of this type." example:"agent"`
	Subtype string `query:"subtype" maxLength:"255" doc:"Only resources of this subtype." example:"basic"`
	Offset  int    `query:"offset" default:"0" minimum:"0" doc:"Number of entries to skip." example:"0"`
	Limit   int    `query:"limit" default:"200" minimum:"1" doc:"At most 1000 are given." example:"20"`
},
) (*httpx.Body[resourcePage], error) {
	in.Limit = min(in.Limit, 1000)
	page, total, err := a.Registry.Resources(
		ctx,
		skill.RegistryQuery{Type: in.Type, Subtype: in.Subtype, Offset: in.Offset, Limit: in.Limit},
	)

	return httpx.Answer(resourcePage{fields.OrEmpty(page), total}, err)
}

func (a *RegistryAPI) template(ctx context.Context, in *struct {
	TypeKey string `path:"type_key" maxLength:"255" doc:"The type of the template." example:"agent"`
	Subtype string `path:"subtype" maxLength:"255" doc:"The subtype of the template." example:"basic"`
	Driver  string `query:"driver" maxLength:"255" doc:"Which of several variants." example:"http"`
},
) (*httpx.Body[skill.RegistryTemplate], error) {
	found, err := a.Registry.Template(ctx, in.TypeKey, in.Subtype, in.Driver)
	return httpx.Answer(whole(found), err)
}

// whole gives a form the empty schema and defaults that it leaves out.
func whole(t skill.RegistryTemplate) skill.RegistryTemplate {
	if t.Schema == nil {
		t.Schema = map[string]any{}
	}

	if t.Defaults == nil {
		t.Defaults = map[string]any{}
	}

	return t
}
