package httpx

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/domain"
)

// rejectUnchangeable rejects a PATCH that names a field of the thing which PATCH does not
// change: one that is shown, or that is set when the thing is created. Fields that nothing
// declares are ignored, as everywhere.
func rejectUnchangeable(api huma.API) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		var body map[string]json.RawMessage

		kind := FiberOf(ctx).Get(fiber.HeaderContentType)
		if kind != "" && !strings.Contains(kind, "json") || json.Unmarshal(FiberOf(ctx).Body(), &body) != nil {
			next(ctx) // the body is checked later
			return
		}

		fixed := unchangeable(api.OpenAPI(), ctx.Operation())

		var fields []domain.Field

		for _, name := range slices.Sorted(maps.Keys(body)) {
			if fixed[name] {
				fields = append(fields, domain.Field{Location: "body." + name, Message: "cannot be changed"})
			}
		}

		if fields == nil {
			next(ctx)
			return
		}

		err := domain.Newf(domain.Invalid, domain.CodeInvalidRequest, "the request names fields that cannot be changed")
		err.Fields = fields
		Reject(ctx, err)
	}
}

// unchangeable returns the names of the fields that the operation does not take.
func unchangeable(document *huma.OpenAPI, op *huma.Operation) map[string]bool {
	fixed := map[string]bool{}

	for status, response := range op.Responses {
		if strings.HasPrefix(status, "2") {
			addMembers(fixed, document, response.Content)
		}
	}

	list := document.Paths[path.Dir(op.Path)]
	if strings.HasSuffix(op.Path, "}") && list != nil && list.Post != nil && list.Post.RequestBody != nil {
		addMembers(fixed, document, list.Post.RequestBody.Content)
	}

	taken := map[string]bool{}
	if op.RequestBody != nil {
		addMembers(taken, document, op.RequestBody.Content)
	}

	for name := range taken {
		delete(fixed, name)
	}

	return fixed
}

func addMembers(names map[string]bool, document *huma.OpenAPI, content map[string]*huma.MediaType) {
	media := content[fiber.MIMEApplicationJSON]
	if media == nil || media.Schema == nil {
		return
	}

	schema := media.Schema
	if schema.Ref != "" {
		schema = document.Components.Schemas.SchemaFromRef(schema.Ref)
	}

	for name := range schema.Properties {
		names[name] = true
	}
}
