package systemtest

import (
	"context"

	"everloop/domain"
	"everloop/domain/prodagent"
	"everloop/domain/skill"
)

// noSkills is a catalogue without skills.
type noSkills struct{}

func (noSkills) Catalog(context.Context, domain.User) ([]skill.Skill, error)   { return nil, nil }
func (noSkills) Installed(context.Context, domain.User) ([]skill.Skill, error) { return nil, nil }

// bashOnly are the tools of an installation that has one.
type bashOnly struct{}

func (bashOnly) NodeTools(context.Context, string) []string { return []string{"Bash"} }

// noAgents are production agents where there are none.
type noAgents struct{}

func (noAgents) StartSession(context.Context, string, prodagent.Start) error {
	return domain.Newf(domain.NotFound, "prod_agent_not_found", "there is none")
}
