package library

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"path"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/api/access"
	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/infra/solutions"
	"everloop/service/accounts"
)

// SolutionRef is the path of an operation on one solution.
type SolutionRef struct {
	SolutionID string `path:"solution_id" doc:"The solution." example:"general"`
}

// SolutionsAPI lists solutions and their roles.
type SolutionsAPI struct {
	Solutions  *solutions.Catalog
	RoleRights *accounts.Store
}

// Register adds the operations of the area to the interface.
func (a *SolutionsAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "list-solutions", Method: fiber.MethodGet, Path: "/api/solutions", Tag: "Solutions",
		Summary: "List the solutions that sessions can be created with",
		Scope:   auth.Solutions,
	}, a.listSolutions)
	httpx.Register(r, httpx.Operation{
		ID: "list-biz-roles", Method: fiber.MethodGet, Path: "/api/solutions/{solution_id}/biz-roles", Tag: "Solutions",
		Summary:     "List the roles of a solution that a user may take",
		Description: "The roles of the caller; administrators may ask for another user.",
		Scope:       auth.Solutions,
		Errors:      httpx.Codes{403: "administrator_required", 404: "solution_not_found"},
	}, a.listRoles)
	httpx.Register(r, httpx.Operation{
		ID: "get-solution-file", Method: fiber.MethodGet, Path: "/api/solutions/{solution_id}/files/{file_path}", Tag: "Solutions",
		Summary: "Get a file of a solution",
		Scope:   auth.Solutions,
		Errors:  httpx.Codes{404: "solution_not_found file_not_found", 413: "file_too_large"},
		Replies: []httpx.Reply{{Status: http.StatusOK, Types: []string{"*/*"}}},
	}, a.solutionFile)
	httpx.Register(r, httpx.Operation{
		ID: "get-allowed-biz-roles", Method: fiber.MethodGet, Path: "/api/admin/users/{user_id}/biz-roles", Tag: "Administration",
		Summary: "Get the roles of a solution that a user may take",
		Scope:   auth.Admin,
		Errors:  httpx.Codes{404: "solution_not_found user_not_found"},
	}, func(ctx context.Context, in *AllowedRolesRef) (*httpx.Body[domain.AllowedRoles], error) {
		if _, err := a.Solutions.Get(in.SolutionID); err != nil {
			return nil, err
		}

		return httpx.Answer(a.RoleRights.AllowedRoles(ctx, in.UserID, in.SolutionID))
	})
	httpx.Register(r, httpx.Operation{
		ID: "set-allowed-biz-roles", Method: fiber.MethodPut, Path: "/api/admin/users/{user_id}/biz-roles", Tag: "Administration",
		Summary:     "Restrict a user to some roles of a solution",
		Description: "An empty list allows none.",
		Scope:       auth.Admin, Audit: "user.biz_roles",
		Errors:  httpx.Codes{404: "solution_not_found user_not_found"},
		Example: `{"biz_role_ids": ["operator"]}`,
	}, a.setAllowedRoles)
}

type solutionList struct {
	Items []access.SolutionBody `json:"items" nullable:"false" doc:"The entries of this page."`
}

func (a *SolutionsAPI) listSolutions(_ context.Context, _ *struct{}) (*httpx.Body[solutionList], error) {
	var out solutionList
	for _, solution := range a.Solutions.All() {
		out.Items = append(out.Items, access.SolutionOf(solution))
	}

	return httpx.Answer(out, nil)
}

type roleList struct {
	SolutionID string            `json:"solution_id" doc:"The solution." example:"general"`
	UserID     string            `json:"user_id" doc:"The user." example:"01a1ff63-4512-7ae4-a128-e82fd2a774e5"`
	Items      []access.RoleBody `json:"items" nullable:"false" doc:"The entries of this page."`
}

func (a *SolutionsAPI) listRoles(ctx context.Context, in *struct {
	SolutionRef
	UserID string `query:"user_id" maxLength:"128" doc:"Another user than the caller, for administrators." example:"01a1fd9a-e0d1-7c52-b4f3-7a1d0c9e8b21"`
},
) (*httpx.Body[roleList], error) {
	user := httpx.CallerOf(ctx).User.ID
	if in.UserID != "" && in.UserID != user {
		if err := httpx.AsAdministrator(ctx, in.UserID); err != nil {
			return nil, err
		}

		user = in.UserID
	}

	solution, err := a.Solutions.Get(in.SolutionID)
	if err != nil {
		return nil, err
	}

	allowed, err := a.RoleRights.AllowedRoles(ctx, user, in.SolutionID)

	return httpx.Answer(roleList{in.SolutionID, user, access.RolesOf(solution.Roles, &allowed)}, err)
}

// solutionFile answers with a file as it is: JSON as JSON, text as text.
func (a *SolutionsAPI) solutionFile(_ context.Context, in *struct {
	SolutionRef
	FilePath string `path:"file_path" doc:"Relative to the solution; slashes are part of it." example:"layout.json"`
},
) (*httpx.Streamed, error) {
	content, err := a.Solutions.File(in.SolutionID, in.FilePath)
	if err != nil {
		return nil, err
	}

	kind := mime.TypeByExtension(path.Ext(in.FilePath))
	switch {
	case path.Ext(in.FilePath) == ".json" && json.Valid(content):
		kind = fiber.MIMEApplicationJSON
	case kind == "" && utf8.Valid(content):
		kind = "text/plain; charset=utf-8"
	case kind == "":
		kind = http.DetectContentType(content)
	}

	return &httpx.Streamed{Body: func(ctx huma.Context) {
		c := httpx.FiberOf(ctx)
		c.Set(fiber.HeaderContentType, kind)

		if httpx.RunsInBrowser(kind) {
			c.Set(fiber.HeaderContentSecurityPolicy, httpx.ActiveContent)
		}

		_ = c.Send(content)
	}}, nil
}

// AllowedRolesRef is the path of an operation on what a user may take.
type AllowedRolesRef struct {
	UserID     string `path:"user_id" doc:"The user." example:"01a1fd9a-e0d1-7c52-b4f3-7a1d0c9e8b21"`
	SolutionID string `query:"solution_id" required:"true" minLength:"1" maxLength:"128" doc:"The solution." example:"general"`
}

func (a *SolutionsAPI) setAllowedRoles(ctx context.Context, in *struct {
	AllowedRolesRef
	Body struct {
		BizRoleIDs []string `json:"biz_role_ids" nullable:"false" maxItems:"1000" doc:"Roles of the solution." example:"[\"operator\"]"`
	}
},
) (*httpx.Body[fields.OkBody], error) {
	solution, err := a.Solutions.Get(in.SolutionID)
	if err != nil {
		return nil, err
	}

	for i, id := range in.Body.BizRoleIDs {
		if _, ok := solution.Role(id); !ok {
			return nil, domain.Invalidf(fmt.Sprintf("body.biz_role_ids[%d]", i), "is not a role of the solution")
		}
	}

	if err := a.RoleRights.SetAllowedRoles(ctx, in.UserID, in.SolutionID, in.Body.BizRoleIDs); err != nil {
		return nil, err
	}

	httpx.Concerns(ctx, in.UserID, map[string]string{"solution_id": in.SolutionID})

	return httpx.Answer(fields.OkBody{OK: true}, nil)
}
