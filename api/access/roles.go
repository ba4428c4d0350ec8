package access

import (
	"context"

	"everloop/api/httpx"
	"everloop/domain"
	"everloop/infra/solutions"
	"everloop/service/accounts"
)

// SolutionBody is a solution as clients see it (docs/solutions.md).
type SolutionBody struct {
	ID             string         `json:"id" doc:"Its id." example:"general"`
	Name           string         `json:"name" doc:"Its name." example:"General agent"`
	Version        string         `json:"version" doc:"The version." example:"1.0.0"`
	Description    string         `json:"description" doc:"The description."`
	LayoutType     string         `json:"layout_type" doc:"The layout that front ends use for its sessions." example:"default"`
	InitialMessage string         `json:"initial_message" doc:"The text that front ends show before the first message."`
	Data           map[string]any `json:"data" doc:"Further settings of any form."`
	Roles          []RoleBody     `json:"roles" nullable:"false" doc:"The roles that sessions can take."`
}

// RoleBody is a role of a solution as clients see it.
type RoleBody struct {
	ID          string `json:"id" doc:"Its id." example:"operator"`
	Name        string `json:"name" doc:"Its name." example:"Operator"`
	Description string `json:"description" doc:"The description." example:"Gets things done and reports what changed."`
}

// SolutionOf shows a solution with all its roles.
func SolutionOf(s domain.Solution) SolutionBody {
	return SolutionBody{
		ID: s.ID, Name: s.Name, Version: s.Version, Description: s.Description, LayoutType: s.LayoutType,
		InitialMessage: s.InitialMessage, Data: s.Data, Roles: RolesOf(s.Roles, nil),
	}
}

// RolesOf lists the roles, or those of them that are allowed.
func RolesOf(roles []domain.BizRole, allowed *domain.AllowedRoles) []RoleBody {
	out := []RoleBody{}

	for _, r := range roles {
		if allowed == nil || allowed.Allows(r.ID) {
			out = append(out, RoleBody{r.ID, r.Name, r.Description})
		}
	}

	return out
}

// RoleCheck checks the solution and role of a new session.
type RoleCheck struct {
	Solutions  *solutions.Catalog
	RoleRights *accounts.Store
}

// CheckSolution refuses a session with a solution that there is not, or a role
// that its user may not take.
func (a *RoleCheck) CheckSolution(ctx context.Context, solutionID, roleID *string) error {
	if solutionID == nil {
		return nil
	}

	solution, err := a.Solutions.Get(*solutionID)
	if err != nil {
		e := domain.Invalidf("body.solution_id", "is not the id of a solution")
		e.Code = "solution_not_found"

		return e
	}

	if roleID == nil {
		return nil
	}

	if err := solution.CheckRole(*roleID, "body.biz_role_id"); err != nil {
		return err
	}

	allowed, err := a.RoleRights.AllowedRoles(ctx, httpx.CallerOf(ctx).User.ID, *solutionID)
	if err == nil && !allowed.Allows(*roleID) {
		err = domain.Newf(domain.Forbidden, "biz_role_not_allowed", "you may not take this role of the solution")
	}

	return err
}
