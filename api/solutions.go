package api

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

	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
)

// Solutions are the ways of working that sessions can be made with. An unknown
// one is solution_not_found.
type Solutions interface {
	All() []domain.Solution
	Get(id string) (domain.Solution, error)
	// File reads a file that comes with a solution; file_not_found.
	File(id, path string) ([]byte, error)
}

// RoleRights say which roles of a solution a user may take.
type RoleRights interface {
	AllowedRoles(ctx context.Context, userID, solutionID string) (domain.AllowedRoles, error)
	SetAllowedRoles(ctx context.Context, userID, solutionID string, roles []string) error
}

// solutionBody is a solution as clients see it (shapes.md section 2).
type solutionBody struct {
	ID             string         `json:"id" doc:"Its id." example:"general"`
	Name           string         `json:"name" doc:"Its name." example:"General agent"`
	Version        string         `json:"version" doc:"The version." example:"1.0.0"`
	Description    string         `json:"description" doc:"The description."`
	LayoutType     string         `json:"layout_type" doc:"The layout that front ends use for its sessions." example:"default"`
	InitialMessage string         `json:"initial_message" doc:"The text that front ends show before the first message."`
	Data           map[string]any `json:"data" doc:"Further settings of any form."`
	Roles          []roleBody     `json:"roles" nullable:"false" doc:"The roles that sessions can take."`
}

type roleBody struct {
	ID          string `json:"id" doc:"Its id." example:"operator"`
	Name        string `json:"name" doc:"Its name." example:"Operator"`
	Description string `json:"description" doc:"The description." example:"Gets things done and reports what changed."`
}

func solutionOf(s domain.Solution) solutionBody {
	return solutionBody{
		ID: s.ID, Name: s.Name, Version: s.Version, Description: s.Description, LayoutType: s.LayoutType,
		InitialMessage: s.InitialMessage, Data: s.Data, Roles: rolesOf(s.Roles, nil),
	}
}

// rolesOf lists the roles, or those of them that are allowed.
func rolesOf(roles []domain.BizRole, allowed *domain.AllowedRoles) []roleBody {
	out := []roleBody{}

	for _, r := range roles {
		if allowed == nil || allowed.Allows(r.ID) {
			out = append(out, roleBody{r.ID, r.Name, r.Description})
		}
	}

	return out
}

// SolutionRef is the path of an operation on one solution.
type SolutionRef struct {
	SolutionID string `path:"solution_id" doc:"The solution." example:"general"`
}

// solutionsAPI lists solutions and their roles.
type solutionsAPI struct {
	solutions  Solutions
	roleRights RoleRights
}

func (a *solutionsAPI) register(r *httpx.Server) {
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
		if _, err := a.solutions.Get(in.SolutionID); err != nil {
			return nil, err
		}

		return httpx.Answer(a.roleRights.AllowedRoles(ctx, in.UserID, in.SolutionID))
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
	Items []solutionBody `json:"items" nullable:"false" doc:"The entries of this page."`
}

func (a *solutionsAPI) listSolutions(_ context.Context, _ *struct{}) (*httpx.Body[solutionList], error) {
	var out solutionList
	for _, solution := range a.solutions.All() {
		out.Items = append(out.Items, solutionOf(solution))
	}

	return httpx.Answer(out, nil)
}

type roleList struct {
	SolutionID string     `json:"solution_id" doc:"The solution." example:"general"`
	UserID     string     `json:"user_id" doc:"The user." example:"01a1ff63-4512-7ae4-a128-e82fd2a774e5"`
	Items      []roleBody `json:"items" nullable:"false" doc:"The entries of this page."`
}

func (a *solutionsAPI) listRoles(ctx context.Context, in *struct {
	SolutionRef
	UserID string `query:"user_id" maxLength:"128" doc:"Another user than the caller, for administrators." example:"01a1fd9a-e0d1-7c52-b4f3-7a1d0c9e8b21"`
},
) (*httpx.Body[roleList], error) {
	caller := httpx.CallerOf(ctx).User

	user := caller.ID
	if in.UserID != "" && in.UserID != caller.ID {
		if !caller.Administrator {
			return nil, domain.Newf(domain.Forbidden, "administrator_required", "only administrators ask about other users")
		}

		user = in.UserID
	}

	solution, err := a.solutions.Get(in.SolutionID)
	if err != nil {
		return nil, err
	}

	allowed, err := a.roleRights.AllowedRoles(ctx, user, in.SolutionID)

	return httpx.Answer(roleList{in.SolutionID, user, rolesOf(solution.Roles, &allowed)}, err)
}

// solutionFile answers with a file as it is: JSON as JSON, text as text.
func (a *solutionsAPI) solutionFile(_ context.Context, in *struct {
	SolutionRef
	FilePath string `path:"file_path" doc:"Relative to the solution; slashes are part of it." example:"layout.json"`
},
) (*httpx.Streamed, error) {
	content, err := a.solutions.File(in.SolutionID, in.FilePath)
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

		if active(kind) {
			c.Set(fiber.HeaderContentSecurityPolicy, activeContent)
		}

		_ = c.Send(content)
	}}, nil
}

// AllowedRolesRef is the path of an operation on what a user may take.
type AllowedRolesRef struct {
	UserID     string `path:"user_id" doc:"The user." example:"01a1fd9a-e0d1-7c52-b4f3-7a1d0c9e8b21"`
	SolutionID string `query:"solution_id" required:"true" minLength:"1" maxLength:"128" doc:"The solution." example:"general"`
}

func (a *solutionsAPI) setAllowedRoles(ctx context.Context, in *struct {
	AllowedRolesRef
	Body struct {
		BizRoleIDs []string `json:"biz_role_ids" nullable:"false" maxItems:"1000" doc:"Roles of the solution." example:"[\"operator\"]"`
	}
},
) (*httpx.Body[okBody], error) {
	solution, err := a.solutions.Get(in.SolutionID)
	if err != nil {
		return nil, err
	}

	for i, id := range in.Body.BizRoleIDs {
		if _, ok := solution.Role(id); !ok {
			return nil, domain.Invalidf(fmt.Sprintf("body.biz_role_ids[%d]", i), "names no role of the solution")
		}
	}

	if err := a.roleRights.SetAllowedRoles(ctx, in.UserID, in.SolutionID, in.Body.BizRoleIDs); err != nil {
		return nil, err
	}

	httpx.Concerns(ctx, in.UserID, map[string]string{"solution_id": in.SolutionID})

	return httpx.Answer(okBody{true}, nil)
}

// roleCheck checks the solution and role of a new session.
type roleCheck struct {
	solutions  Solutions
	roleRights RoleRights
}

// checkSolution refuses a session with a solution that there is not, or a role
// that its user may not take.
func (a *roleCheck) checkSolution(ctx context.Context, solutionID, roleID *string) error {
	if solutionID == nil {
		return nil
	}

	if _, err := a.solutions.Get(*solutionID); err != nil {
		e := domain.Invalidf("body.solution_id", "names no solution")
		e.Code = "solution_not_found"

		return e
	}

	if roleID == nil {
		return nil
	}

	allowed, err := a.roleRights.AllowedRoles(ctx, httpx.CallerOf(ctx).User.ID, *solutionID)
	if err == nil && !allowed.Allows(*roleID) {
		err = domain.Newf(domain.Forbidden, "biz_role_not_allowed", "you may not take this role of the solution")
	}

	return err
}
