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
	ID             string         `json:"id"`
	Name           string         `json:"name"`
	Version        string         `json:"version"`
	Description    string         `json:"description"`
	LayoutType     string         `json:"layout_type"`
	InitialMessage string         `json:"initial_message"`
	Data           map[string]any `json:"data"`
	Roles          []roleBody     `json:"roles" nullable:"false"`
}

type roleBody struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
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
	SolutionID string `path:"solution_id"`
}

func (s *server) solutionRoutes() {
	const path, tag = "/api/solutions", "Solutions"
	add(s, operation{
		id: "list-solutions", method: fiber.MethodGet, path: path, tag: tag, summary: "The ways of working that sessions can be made with",
		scope: auth.Solutions,
	}, s.listSolutions)
	add(s, operation{
		id: "list-biz-roles", method: fiber.MethodGet, path: path + "/{solution_id}/biz-roles", tag: tag,
		summary: "The roles of a solution that a user may take", scope: auth.Solutions,
	}, s.listRoles)
	add(s, operation{
		id: "get-solution-file", method: fiber.MethodGet, path: path + "/{solution_id}/files/{file_path}", tag: tag,
		summary: "A file that comes with a solution", scope: auth.Solutions, changes: describeAs(http.StatusOK, "*/*"),
	}, s.solutionFile)
	const roles = "/api/admin/users/{user_id}/biz-roles"
	add(s, operation{
		id: "get-allowed-biz-roles", method: fiber.MethodGet, path: roles, tag: "Administration",
		summary: "Which roles of a solution a user may take", scope: auth.Admin,
	}, func(ctx context.Context, in *AllowedRolesRef) (*body[domain.AllowedRoles], error) {
		if _, err := s.Solutions.Get(in.SolutionID); err != nil {
			return nil, err
		}
		return answer(s.RoleRights.AllowedRoles(ctx, in.UserID, in.SolutionID))
	})
	add(s, operation{
		id: "set-allowed-biz-roles", method: fiber.MethodPut, path: roles, tag: "Administration",
		summary: "Restrict a user to some roles of a solution", scope: auth.Admin,
	}, s.setAllowedRoles)
}

type solutionList struct {
	Items []solutionBody `json:"items" nullable:"false"`
}

func (s *server) listSolutions(_ context.Context, _ *struct{}) (*body[solutionList], error) {
	var out solutionList
	for _, solution := range s.Solutions.All() {
		out.Items = append(out.Items, solutionOf(solution))
	}
	return answer(out, nil)
}

type roleList struct {
	SolutionID string     `json:"solution_id"`
	UserID     string     `json:"user_id"`
	Items      []roleBody `json:"items" nullable:"false"`
}

func (s *server) listRoles(ctx context.Context, in *struct {
	SolutionRef
	UserID string `query:"user_id" maxLength:"128" doc:"Another user than the caller, for administrators."`
},
) (*body[roleList], error) {
	caller := callerOf(ctx).User
	user := caller.ID
	if in.UserID != "" && in.UserID != caller.ID {
		if !caller.Administrator {
			return nil, domain.Newf(domain.Forbidden, "administrator_required", "only administrators ask about other users")
		}
		user = in.UserID
	}
	solution, err := s.Solutions.Get(in.SolutionID)
	if err != nil {
		return nil, err
	}
	allowed, err := s.RoleRights.AllowedRoles(ctx, user, in.SolutionID)
	return answer(roleList{in.SolutionID, user, rolesOf(solution.Roles, &allowed)}, err)
}

// solutionFile answers with a file as it is: JSON as JSON, text as text.
func (s *server) solutionFile(_ context.Context, in *struct {
	SolutionRef
	FilePath string `path:"file_path"`
},
) (*streamed, error) {
	content, err := s.Solutions.File(in.SolutionID, in.FilePath)
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
	return &streamed{func(ctx huma.Context) {
		c := fiberOf(ctx)
		c.Set(fiber.HeaderContentType, kind)
		if active(kind) {
			c.Set(fiber.HeaderContentSecurityPolicy, activeContent)
		}
		_ = c.Send(content)
	}}, nil
}

// AllowedRolesRef is the path of an operation on what a user may take.
type AllowedRolesRef struct {
	UserID     string `path:"user_id"`
	SolutionID string `query:"solution_id" required:"true" minLength:"1" maxLength:"128"`
}

func (s *server) setAllowedRoles(ctx context.Context, in *struct {
	AllowedRolesRef
	Body struct {
		BizRoleIDs []string `json:"biz_role_ids" nullable:"false" maxItems:"1000"`
	}
},
) (*body[okBody], error) {
	solution, err := s.Solutions.Get(in.SolutionID)
	if err != nil {
		return nil, err
	}
	for i, id := range in.Body.BizRoleIDs {
		if _, ok := solution.Role(id); !ok {
			return nil, domain.Invalidf(fmt.Sprintf("body.biz_role_ids[%d]", i), "names no role of the solution")
		}
	}
	if err := s.RoleRights.SetAllowedRoles(ctx, in.UserID, in.SolutionID, in.Body.BizRoleIDs); err != nil {
		return nil, err
	}
	s.audit(ctx, "user.biz_roles", in.UserID, map[string]string{"solution_id": in.SolutionID})
	return answer(okBody{true}, nil)
}

// checkSolution refuses a session with a solution that there is not, or a role
// that its user may not take.
func (s *server) checkSolution(ctx context.Context, solutionID, roleID *string) error {
	if solutionID == nil {
		return nil
	}
	if _, err := s.Solutions.Get(*solutionID); err != nil {
		e := domain.Invalidf("body.solution_id", "names no solution")
		e.Code = "solution_not_found"
		return e
	}
	if roleID == nil {
		return nil
	}
	allowed, err := s.RoleRights.AllowedRoles(ctx, callerOf(ctx).User.ID, *solutionID)
	if err == nil && !allowed.Allows(*roleID) {
		err = domain.Newf(domain.Forbidden, "biz_role_not_allowed", "you may not take this role of the solution")
	}
	return err
}
