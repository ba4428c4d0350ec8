package modelcall

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/infra/model"
)

// pricedModels returns the client of a server with models of these names and prices.
func pricedModels(t *testing.T, prices map[string]*domain.Price) *model.Client {
	t.Helper()

	list, known := obj{"object": "list"}, map[string]domain.Price{}

	var entries []obj

	for name, price := range prices {
		entries = append(entries, obj{"id": name, "object": "model"})
		if price != nil {
			known[name] = *price
		}
	}

	list["data"] = entries

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		require.NoError(t, json.NewEncoder(w).Encode(list))
	}))
	t.Cleanup(server.Close)

	return model.New(model.Config{BaseURL: server.URL, Prices: known})
}

type obj = map[string]any

func TestModelCall_refusedModel(t *testing.T) {
	t.Parallel()

	models := pricedModels(t, map[string]*domain.Price{
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
	})

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
			Caller: &Caller{Models: models}, model: caller, scope: tools.Scope{Headless: c.headless, Profile: c.profile},
		}
		m.turn.Chat.Trigger = c.trigger

		refusal := m.refusedModel(t.Context(), c.model, c.agent, c.agent.Name == "")
		require.Equal(t, c.refused, refusal != "", "%s: %s", name, refusal)
	}
}
