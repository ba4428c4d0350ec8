package api

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
)

// Registry is the skill registry as clients look at it. Without one each call
// fails as unavailable, with the code registry_not_configured.
type Registry interface {
	Resources(ctx context.Context, q domain.RegistryQuery) (page []domain.RegistryResource, total int, err error)
	Resource(ctx context.Context, id string) (domain.RegistryResource, error)
	Organizations(ctx context.Context) ([]domain.RegistryOrganization, error)
	Templates(ctx context.Context) ([]domain.RegistryTemplate, error)
	Template(ctx context.Context, typeKey, subtype, driver string) (domain.RegistryTemplate, error)
	Scenarios(ctx context.Context, limit int) ([]domain.RegistryScenario, error)
	StoreStats(ctx context.Context) (domain.RegistryStats, error)
}

type resourcePage struct {
	Items []domain.RegistryResource `json:"items" nullable:"false"`
	Total int                       `json:"total"`
}

type scenarioList struct {
	Items []domain.RegistryScenario `json:"items" nullable:"false"`
}

func (s *server) registryRoutes() {
	op := func(id, path, summary string) operation {
		return operation{id: id, method: fiber.MethodGet, path: "/api/registry" + path, tag: "Registry", summary: summary, scope: auth.Skills}
	}
	add(s, op("list-registry-resources", "/resources", "What the registry keeps for others to use"), s.listResources)
	add(s, op("get-registry-resource", "/resources/{id}", "One resource"),
		func(ctx context.Context, in *struct {
			ID string `path:"id" maxLength:"200"`
		},
		) (*body[domain.RegistryResource], error) {
			return answer(s.Registry.Resource(ctx, in.ID))
		})
	add(s, op("list-registry-organizations", "/organizations", "Who publishes skills"),
		func(ctx context.Context, _ *struct{}) (*body[list[domain.RegistryOrganization]], error) {
			found, err := s.Registry.Organizations(ctx)
			return answer(listOf(found), err)
		})
	add(s, op("list-registry-templates", "/templates", "Forms that things are made from"),
		func(ctx context.Context, _ *struct{}) (*body[list[domain.RegistryTemplate]], error) {
			found, err := s.Registry.Templates(ctx)
			for i := range found {
				found[i] = whole(found[i])
			}
			return answer(listOf(found), err)
		})
	add(s, op("get-registry-template", "/templates/{type_key}/{subtype}", "One form"), s.template)
	add(s, op("list-registry-scenarios", "/scenarios", "Bundles of resources for one purpose"),
		func(ctx context.Context, in *struct {
			Limit int `query:"limit" default:"500" minimum:"1" maximum:"2000"`
		},
		) (*body[scenarioList], error) {
			found, err := s.Registry.Scenarios(ctx, in.Limit)
			return answer(scenarioList{orEmpty(found)}, err)
		})
	add(s, op("get-skill-store-stats", "/skill-store/stats", "How much the registry holds"),
		func(ctx context.Context, _ *struct{}) (*body[domain.RegistryStats], error) {
			return answer(s.Registry.StoreStats(ctx))
		})
	add(s, operation{
		id: "get-gis-status", method: fiber.MethodGet, path: "/api/gis/status", tag: "Service",
		summary: "Whether the map of situations can be used", scope: auth.SessionsRead,
	}, func(ctx context.Context, _ *struct{}) (*body[domain.GISStatus], error) {
		return answer(s.GIS(ctx), nil)
	})
}

func (s *server) listResources(ctx context.Context, in *struct {
	Type    string `query:"type" maxLength:"255"`
	Subtype string `query:"subtype" maxLength:"255"`
	Offset  int    `query:"offset" default:"0" minimum:"0"`
	Limit   int    `query:"limit" default:"200" minimum:"1" doc:"At most 1000 are given."`
},
) (*body[resourcePage], error) {
	in.Limit = min(in.Limit, 1000)
	page, total, err := s.Registry.Resources(ctx, domain.RegistryQuery{Type: in.Type, Subtype: in.Subtype, Offset: in.Offset, Limit: in.Limit})
	return answer(resourcePage{orEmpty(page), total}, err)
}

func (s *server) template(ctx context.Context, in *struct {
	TypeKey string `path:"type_key" maxLength:"255"`
	Subtype string `path:"subtype" maxLength:"255"`
	Driver  string `query:"driver" maxLength:"255" doc:"Which of several variants."`
},
) (*body[domain.RegistryTemplate], error) {
	found, err := s.Registry.Template(ctx, in.TypeKey, in.Subtype, in.Driver)
	return answer(whole(found), err)
}

// whole gives a form the empty schema and defaults that it leaves out.
func whole(t domain.RegistryTemplate) domain.RegistryTemplate {
	if t.Schema == nil {
		t.Schema = map[string]any{}
	}
	if t.Defaults == nil {
		t.Defaults = map[string]any{}
	}
	return t
}
