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

// noTasks are scheduled tasks where there are none.
type noTasks struct{}

func (noTasks) Sync(context.Context, string) error         { return nil }
func (noTasks) Tick(context.Context, string) (bool, error) { return false, nil }
func (noTasks) Stop(context.Context, domain.RunChat) error { return nil }

// noAgents are production agents where there are none.
type noAgents struct{}

func (noAgents) StartSession(context.Context, string, prodagent.Start) error {
	return domain.Newf(domain.NotFound, "prod_agent_not_found", "there is none")
}
