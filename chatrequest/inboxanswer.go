package chatrequest

import (
	"encoding/json"

	"everloop/domain"
)

// InboxAnswer is the body of POST /api/inbox/{question_id}/answer. Every question needs an
// option or a text.
type InboxAnswer struct {
	Selections Selections `json:"selections,omitempty" doc:"Indexes of chosen options, by the number of the question from 0." example:"{\"0\": [1]}"`
	Custom     Custom     `json:"custom,omitempty" doc:"Texts instead of options or besides them, by the number of the question from 0." example:"{\"1\": \"Neither of them.\"}"`
}

// ParseInboxAnswer parses the answer to a question that the request identifies otherwise.
func ParseInboxAnswer(raw json.RawMessage) (*domain.Answer, error) {
	var body InboxAnswer
	if err := Decode(raw, &body); err != nil {
		return nil, err
	}

	return (&ChatAnswer{Selections: body.Selections, Custom: body.Custom}).answer()
}
