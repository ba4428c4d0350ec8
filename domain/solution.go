package domain

import "slices"

// Solution is a way of working that sessions are made with: who the agent is,
// what it may do, and how a front end lays it out
// (docs/solutions.md).
type Solution struct {
	ID             string
	Name           string
	Version        string
	Description    string
	LayoutType     string
	InitialMessage string
	Data           map[string]any
	Roles          []BizRole
	Prompt         string
	DisableTools   []string
	Agents         []AgentType
	Permissions    []PermissionRule
	Budget         *Budget
	Compaction     *CompactionPolicy
	MaxSteps       int
	ModelsAllowed  []string
	StuckAfter     int
	Skills         []string // that its sessions are offered first: the id of a list, org/name, or name
	MCPServers     []MCPServer
}

// BizRole is a part that a user plays in a solution, and what the agent gets
// of it.
type BizRole struct {
	ID           string
	Name         string
	Description  string
	Prompt       string
	DisableTools []string
}

// Role finds one of the solution's roles.
func (s Solution) Role(id string) (BizRole, bool) {
	for _, role := range s.Roles {
		if role.ID == id {
			return role, true
		}
	}

	return BizRole{}, false
}

// CheckRole refuses a role that the solution does not have, at the place of the request
// that names it. A solution without roles accepts any name: it stands for nothing there.
func (s Solution) CheckRole(id, at string) error {
	if _, found := s.Role(id); found || len(s.Roles) == 0 {
		return nil
	}

	e := Invalidf(at, "names no role of the solution")
	e.Code = "biz_role_not_found"

	return e
}

// Over gives the profile as the solution, in one of its roles, changes it. An
// empty role is none.
func (s Solution) Over(p Profile, roleID string) Profile {
	p = p.With(SessionSetup{
		Agents:      s.Agents,
		Permissions: s.Permissions,
		Budget:      s.Budget,
		Compaction:  s.Compaction,
		MaxSteps:    s.MaxSteps,

		ModelsAllowed: s.ModelsAllowed,
		StuckAfter:    s.StuckAfter,
	})
	p.Instructions = JoinParagraphs(p.Instructions, s.Prompt)
	p.DisableTools = append(p.DisableTools[:len(p.DisableTools):len(p.DisableTools)], s.DisableTools...)
	p.Skills = append(p.Skills[:len(p.Skills):len(p.Skills)], s.Skills...)

	p.MCPServers = append(p.MCPServers[:len(p.MCPServers):len(p.MCPServers)], s.MCPServers...)
	if role, ok := s.Role(roleID); ok {
		p.Instructions = JoinParagraphs(p.Instructions, role.Prompt)
		p.DisableTools = append(p.DisableTools, role.DisableTools...)
	}

	return p
}

// JoinParagraphs joins two texts by an empty line; one that is empty adds none.
func JoinParagraphs(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}

	return a + "\n\n" + b
}

// UnknownSolution is the answer for a solution that there is not.
func UnknownSolution(id string) *Error {
	return Newf(NotFound, "solution_not_found", "solution %s does not exist", id)
}

// AllowedRoles says which roles of a solution a user may take. With DefaultAll
// nothing was chosen, and all of them may be taken.
type AllowedRoles struct {
	UserID     string   `json:"user_id" doc:"The user." example:"01a1ff63-4512-7ae4-a128-e82fd2a774e5"`
	SolutionID string   `json:"solution_id" doc:"The solution." example:"general"`
	BizRoleIDs []string `json:"biz_role_ids" nullable:"false" doc:"Roles of the solution." example:"[\"operator\"]"`
	DefaultAll bool     `json:"default_all" doc:"Whether all roles are allowed because none were chosen."`
}

// Allows says whether the user may take a role.
func (a AllowedRoles) Allows(roleID string) bool {
	return a.DefaultAll || slices.Contains(a.BizRoleIDs, roleID)
}
