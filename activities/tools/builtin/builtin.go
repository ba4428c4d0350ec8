// Package builtin makes the registry of the service's own tools, and holds those that
// have no package of their own: for files, the web, tasks, plans, skills, memories and
// the documents of production solutions.
package builtin

import (
	"everloop/activities/tools"
	"everloop/activities/tools/agents"
	"everloop/activities/tools/commands"
	"everloop/activities/tools/questions"
	"everloop/activities/tools/search"
	"everloop/domain"
)

// New makes a registry of the built-in tools.
func New(d tools.Deps) (*tools.Registry, error) {
	d.Limits = d.Limits.OrDefault()
	r := tools.NewRegistry(d.Workspaces, d.Limits.Result)

	builtIn := []tools.Tool{
		commands.NewBash(d), newRead(d), newWrite(d), newEdit(d), search.NewGlob(d), search.NewGrep(d),
		questions.NewAskUserQuestion(), newTaskCreate(d), agents.NewAgent(d), newSubmitPlan(),
	}
	if d.Network == domain.NetworkRules {
		builtIn = append(builtIn, questions.NewRequestAccess(d))
	}

	if d.Web != nil {
		builtIn = append(builtIn, newWebFetch(d))
	}

	if d.Search != nil {
		builtIn = append(builtIn, newWebSearch(d))
	}

	for _, tool := range builtIn {
		if err := r.Add(tool); err != nil {
			return nil, err
		}
	}

	return r, nil
}
