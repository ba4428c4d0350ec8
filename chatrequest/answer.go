package chatrequest

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"everloop/domain"
)

// Selections are the indexes of chosen options, by the number of the question. An invalid index
// is an invalid answer, not an invalid request.
type Selections map[string]json.RawMessage

// Custom contains texts instead of options, by the number of the question.
type Custom map[string]json.RawMessage

// questionNumber is the pattern of a question's number.
const questionNumber = "^(0|[1-9][0-9]{0,3})$"

// Schema implements huma.SchemaProvider.
func (Selections) Schema(huma.Registry) *huma.Schema {
	least := 0.0
	index := &huma.Schema{Type: huma.TypeInteger, Minimum: &least}

	return byQuestion(&huma.Schema{Type: huma.TypeArray, Items: index, Nullable: true})
}

// Schema implements huma.SchemaProvider.
func (Custom) Schema(huma.Registry) *huma.Schema {
	return byQuestion(&huma.Schema{Type: huma.TypeString, Nullable: true})
}

func byQuestion(value *huma.Schema) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeObject, Nullable: true, AdditionalProperties: value,
		Extensions: map[string]any{"propertyNames": map[string]any{"pattern": questionNumber}},
	}
}

// read implements reader.
func (s *Selections) read(at string, raw json.RawMessage) error { return readObject(at, raw, s) }

// read implements reader.
func (c *Custom) read(at string, raw json.RawMessage) error { return readObject(at, raw, c) }

// answer checks the content of an answer.
func (a *ChatAnswer) answer() (*domain.Answer, error) {
	if strings.IndexByte(a.ToolCallID, 0) >= 0 {
		return nil, invalidAnswer("tool_call_id", "is not the id of a tool call: it contains a NUL character")
	}

	answer := &domain.Answer{ToolCallID: a.ToolCallID, Selections: map[string][]int{}, Custom: map[string]string{}}
	for question, raw := range a.Custom {
		var text *string
		if json.Unmarshal(raw, &text) != nil {
			return nil, invalidAnswer("custom", "the text of a question must be a string")
		}

		if text != nil && strings.TrimSpace(*text) != "" {
			answer.Custom[question] = domain.CleanText(*text)
		}
	}

	for question, raw := range a.Selections {
		var given []*int // a null index is missing, not 0
		if json.Unmarshal(raw, &given) != nil || slices.Contains(given, nil) {
			return nil, invalidAnswer("selections", "a question's options must be an array of indexes")
		}

		options := make([]int, len(given))
		for i, option := range given {
			options[i] = *option
		}

		if len(options) > 0 {
			answer.Selections[question] = options
		} else if answer.Custom[question] == "" {
			return nil, invalidAnswer("selections", "a question has no option chosen and no custom text")
		}
	}

	if len(answer.Selections) == 0 && len(answer.Custom) == 0 {
		return nil, invalidAnswer("selections", "no question is answered")
	}

	for question := range answer.Custom {
		if !isQuestionNumber(question) {
			return nil, invalidAnswer("custom", "questions are named by their number, from \"0\"")
		}
	}

	for question, options := range answer.Selections {
		if !isQuestionNumber(question) {
			return nil, invalidAnswer("selections", "questions are named by their number, from \"0\"")
		}

		for _, option := range options {
			if option < 0 {
				return nil, invalidAnswer("selections", "an option's index is never negative")
			}
		}
	}

	return answer, nil
}

func invalidAnswer(field, message string) error {
	err := domain.Invalidf("body.askuser_answer."+field, "%s", message)
	err.Code = domain.CodeInvalidAnswer

	return err
}

var isQuestionNumber = regexp.MustCompile(questionNumber).MatchString
