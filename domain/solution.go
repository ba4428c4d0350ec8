package domain

import "slices"

// Solution is a template that sessions are created with: the agent, its permissions, and the
// layout of a front end (docs/solutions.md).
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
	Skills         []string // offered to its sessions first: the id of a list, org/name, or name
	MCPServers     []MCPServer
}

// BizRole is a role of a user in a solution, and what it adds for the agent.
type BizRole struct {
	ID           string
	Name         string
	Description  string
	Prompt       string
	DisableTools []string
}

// Role returns one of the solution's roles.
func (s Solution) Role(id string) (BizRole, bool) {
	for _, role := range s.Roles {
		if role.ID == id {
			return role, true
		}
	}

	return BizRole{}, false
}

// CheckRole rejects a role that the solution does not have, with the request field that names
// it. A solution without roles accepts any name and ignores it.
func (s Solution) CheckRole(id, at string) error {
	if _, found := s.Role(id); found || len(s.Roles) == 0 {
		return nil
	}

	e := Invalidf(at, "is not a role of the solution")
	e.Code = "biz_role_not_found"

	return e
}

// Over returns the profile overridden by the solution in one of its roles. An empty role is
// none.
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

// JoinParagraphs joins two texts by an empty line; an empty text adds none.
func JoinParagraphs(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}

	return a + "\n\n" + b
}

// UnknownSolution returns the error for a solution that does not exist.
func UnknownSolution(id string) *Error {
	return Newf(NotFound, "solution_not_found", "solution %s does not exist", id)
}

// AllowedRoles lists the roles of a solution that a user can take. With DefaultAll nothing was
// selected, and all of them are allowed.
type AllowedRoles struct {
	UserID     string   `json:"user_id" doc:"The user." example:"01a1ff63-4512-7ae4-a128-e82fd2a774e5"`
	SolutionID string   `json:"solution_id" doc:"The solution." example:"general"`
	BizRoleIDs []string `json:"biz_role_ids" nullable:"false" doc:"Roles of the solution." example:"[\"operator\"]"`
	DefaultAll bool     `json:"default_all" doc:"Whether all roles are allowed because none were chosen."`
}

// Allows reports whether the user can take a role.
func (a AllowedRoles) Allows(roleID string) bool {
	return a.DefaultAll || slices.Contains(a.BizRoleIDs, roleID)
}
