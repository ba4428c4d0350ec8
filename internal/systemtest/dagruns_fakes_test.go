package systemtest

import (
	"context"

	"everloop/domain"
	"everloop/domain/prodagent"
)

// bashOnly lists the tools of an installation that has one.
func bashOnly(context.Context, string) []string { return []string{"Bash"} }

// noAgents are production agents where there are none.
type noAgents struct{}

func (noAgents) StartSession(context.Context, string, prodagent.Start) error {
	return domain.Newf(domain.NotFound, "prod_agent_not_found", "there is none")
}
