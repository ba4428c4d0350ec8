package questions

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"everloop/domain"
)

// PermissionQuestion gives the arguments of the AskUserQuestion call that asks
// whether the call with the given id may be carried out. Session: the answer may
// be for all calls like it.
func PermissionQuestion(callID, about string, session bool) json.RawMessage {
	options := []Option{{Label: domain.PermissionAllowOnce, Description: "Carry it out this time."}}
	if session {
		options = append(
			options,
			Option{
				Label:       domain.PermissionAllowSession,
				Description: "Carry it out, and do not ask about the same call in this session again.",
			},
		)
	}

	options = append(
		options,
		Option{
			Label:       domain.PermissionRefuse,
			Description: "Do not carry it out; the agent learns that it was denied. Text instead of an option denies it with that reason.",
		},
	)
	asked, _ := json.Marshal(struct {
		Questions     []Question `json:"questions"`
		PermissionFor string     `json:"permission_for"`
	}{[]Question{{Question: "May the agent do this?\n\n" + about, Header: domain.PermissionDisplayName, Options: options}}, callID})

	return asked
}

// WithoutAlways returns an answer in which a permission that is given always is given for
// the session.
func WithoutAlways(asked []Question, answer domain.Answer) domain.Answer {
	selections := maps.Clone(answer.Selections)

	for i, q := range asked {
		always, session := q.option(domain.PermissionAllowAlways), q.option(domain.PermissionAllowSession)
		if q.Header != domain.PermissionDisplayName || always < 0 || session < 0 {
			continue
		}

		key := strconv.Itoa(i)
		if slices.Contains(selections[key], always) {
			selections[key] = []int{session}
		}
	}

	answer.Selections = selections

	return answer
}

// option returns the index of the option with a label; -1: there is none.
func (q Question) option(label string) int {
	return slices.IndexFunc(q.Options, func(o Option) bool { return o.Label == label })
}

// What is recorded of questions in a session whose owner skips confirmations: no user
// has answered them.
const (
	GrantedByPolicy = `{"answers":[{"question":"","selected":["` + domain.PermissionAllowOnce + `"],"custom":""}],` +
		`"answered_by":"skip_confirmations"}`
	LeftToModel = `{"answers":[],"answered_by":"skip_confirmations","note":"No user is there to answer. ` +
		`Choose what fits the task best yourself, say what you chose and why, and go on."}`
)
