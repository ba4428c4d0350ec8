package questions

import (
	"encoding/json"
	"slices"

	"everloop/domain"
)

// What the model reads of questions that no user answered in time.
const (
	chooseNote      = "No user answered in time. Choose what fits the task best yourself, say what you chose and why, and go on."
	firstOptionNote = "No user answered in time: the first option stands for the answer. A question without options is left to you."
	answerNote      = "No user answered in time: the answer that was set for this case stands."
	deniedNote      = "No user answered in time, so it is denied."
)

type policyAnswer struct {
	Answers    []policyChoice `json:"answers"`
	AnsweredBy string         `json:"answered_by"`
	Note       string         `json:"note"`
}

type policyChoice struct {
	Question string   `json:"question"`
	Selected []string `json:"selected"`
	Custom   string   `json:"custom"`
}

// PolicyAnswer returns what is recorded of a question whose time has ended: its default policy
// answers, on record. A permission request is denied.
func PolicyAnswer(q domain.Question, given string) (json.RawMessage, error) {
	asked, err := ParseQuestions(q.Questions)
	if err != nil {
		return nil, err
	}

	answer := policyAnswer{Answers: []policyChoice{}, AnsweredBy: domain.AnsweredByPolicy, Note: chooseNote}

	switch {
	case q.Guards != nil:
		answer.Note = deniedNote
		for _, question := range asked {
			answer.Answers = append(answer.Answers, policyChoice{question.Question, []string{domain.PermissionRefuse}, ""})
		}
	case q.DefaultPolicy != nil && *q.DefaultPolicy == domain.PolicyAnswer && given != "":
		answer.Note = answerNote

		for _, question := range asked {
			choice := policyChoice{question.Question, []string{}, given}
			if slices.ContainsFunc(question.Options, func(o Option) bool { return o.Label == given }) {
				choice = policyChoice{question.Question, []string{given}, ""}
			}

			answer.Answers = append(answer.Answers, choice)
		}
	case q.DefaultPolicy != nil && *q.DefaultPolicy == domain.PolicyFirstOption:
		answer.Note = firstOptionNote

		for _, question := range asked {
			choice := policyChoice{question.Question, []string{}, ""}
			if len(question.Options) > 0 {
				choice.Selected = append(choice.Selected, question.Options[0].Label)
			}

			answer.Answers = append(answer.Answers, choice)
		}
	}

	return json.Marshal(answer)
}
