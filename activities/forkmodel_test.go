package activities

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/domain"
)

// pricedModels are models by name.
type pricedModels map[string]*domain.Price

func (pricedModels) Stream(context.Context, domain.Prompt, func(domain.Delta) error) (domain.Reply, error) {
	return domain.Reply{}, nil
}

func (p pricedModels) Resolve(_ context.Context, name string) (domain.Model, error) {
	price, ok := p[name]
	if !ok {
		return domain.Model{}, domain.Newf(domain.Invalid, domain.CodeUnknownModel, "there is no model %s", name)
	}

	return domain.Model{ID: name, Price: price}, nil
}

func (pricedModels) Models(context.Context) ([]domain.Model, error) { return nil, nil }

func (pricedModels) PromptWasCut(context.Context, string, int64, int64) {}

func TestModelCall_refusedModel(t *testing.T) {
	t.Parallel()

	models := pricedModels{
		"cheap": {
			Input:  0.1,
			Output: 0.1,
		},
		"same":          {Input: 1, Output: 2},
		"dear":          {Input: 75, Output: 75},
		"mixed":         {Input: 0.1, Output: 3},
		"free of cache": {Input: 1, Output: 2, CacheRead: new(float64)},
		"unpriced":      nil,
		"unpriced too":  nil,
	}

	for name, c := range map[string]struct {
		caller, model string
		trigger       domain.Trigger
		headless      bool
		profile       domain.Profile
		agent         domain.AgentType // of the workspace, unless the profile has it
		refused       bool
	}{
		"cheaper":             {caller: "same", model: "cheap"},
		"its own":             {caller: "dear", model: "dear", trigger: domain.TriggerSchedule},
		"dearer":              {caller: "same", model: "dear", refused: true},
		"dearer output":       {caller: "same", model: "mixed", refused: true},
		"no price beside one": {caller: "same", model: "unpriced", refused: true},
		"a price beside none": {caller: "unpriced", model: "cheap", refused: true},
		"no prices":           {caller: "unpriced", model: "unpriced too"},
		"unknown":             {caller: "same", model: "none", refused: true},
		"unattended, cheaper": {caller: "same", model: "cheap", trigger: domain.TriggerSchedule, refused: true},
		"DAG, cheaper":        {caller: "same", model: "cheap", trigger: domain.TriggerDAG, refused: true},
		"issue, cheaper":      {caller: "same", model: "cheap", trigger: domain.TriggerIssue, refused: true},
		"headless, cheaper":   {caller: "same", model: "cheap", headless: true, refused: true},
		"listed": {
			caller: "same", model: "dear", headless: true, profile: domain.Profile{ModelsAllowed: []string{"dear"}},
		},
		"not listed": {
			caller: "same", model: "cheap", profile: domain.Profile{ModelsAllowed: []string{"dear"}}, refused: true,
		},
		"no model listed":            {caller: "same", model: "cheap", profile: domain.Profile{ModelsAllowed: []string{}}, refused: true},
		"type of the workspace":      {caller: "same", model: "dear", agent: domain.AgentType{Name: "a", Model: "dear"}, refused: true},
		"type of the session":        {caller: "same", model: "dear", agent: domain.AgentType{Name: "b", Model: "dear"}},
		"type that replaces another": {caller: "same", model: "dear", agent: domain.AgentType{Name: "c", Model: "dear"}, refused: true},
	} {
		c.profile.Agents = []domain.AgentType{{Name: "b", Model: "dear"}, {Name: "c", Model: "cheap"}}
		caller, err := models.Resolve(t.Context(), c.caller)
		require.NoError(t, err)

		m := &modelCall{
			Activities: &Activities{Models: models}, model: caller, scope: tools.Scope{Headless: c.headless, Profile: c.profile},
		}
		m.turn.Chat.Trigger = c.trigger

		refusal := m.refusedModel(t.Context(), c.model, c.agent, c.agent.Name == "")
		require.Equal(t, c.refused, refusal != "", "%s: %s", name, refusal)
	}
}
