// Package questions holds what users are asked and how their answers are read: the tools
// AskUserQuestion and RequestAccess, questions for permissions, and answers by policy.
package questions

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"everloop/activities/tools"
	"everloop/domain"
)

//go:embed askuser.md
var askDescription string

// Question is one question of an AskUserQuestion call (docs/tools.md#askuserquestion).
type Question struct {
	Question    string   `json:"question" jsonschema:"The question, ending with a question mark" limits:"1..4000"`
	Header      string   `json:"header,omitempty" jsonschema:"One or two words shown above it" limits:"..100"`
	Options     []Option `json:"options" limits:"..20"`
	MultiSelect bool     `json:"multiSelect,omitempty" jsonschema:"Several options may be chosen; one when left out"`
}

// Option is one preset answer.
type Option struct {
	Label       string `json:"label" jsonschema:"What the user chooses, in a few words" limits:"1..400"`
	Description string `json:"description,omitempty" jsonschema:"What follows from choosing it" limits:"..4000"`
}

type askArguments struct {
	Questions []Question `json:"questions" limits:"1..20"`
}

// openQuestions lets the arguments have members that are not declared, and options be
// left out.
func openQuestions(s *jsonschema.Schema) {
	question := s.Properties["questions"].Items
	option := question.Properties["options"].Items
	s.AdditionalProperties, question.AdditionalProperties, option.AdditionalProperties = nil, nil, nil
	question.Required = []string{"question"}
	s.Properties["source_loop"] = &jsonschema.Schema{Type: "object", Description: "Set by the service for sub-agents"}
}

// NewAskUserQuestion returns a new tool AskUserQuestion.
func NewAskUserQuestion() tools.Tool {
	return tools.Tool{
		Name:        tools.AskUserQuestion,
		DisplayName: "Question",
		Spec: domain.ToolSpec{
			Name:        tools.AskUserQuestion,
			Description: askDescription,
			Parameters:  tools.Parameters[askArguments](openQuestions),
		},
		Planning:  true,
		Executing: true,
		Asks:      true,
		Summary: func(arguments json.RawMessage) string {
			questions, err := ParseQuestions(arguments)
			if err != nil || len(questions) == 0 {
				return ""
			}

			return questions[0].Question
		},
	}
}

// Declared returns the arguments of a call of the model without the members that it may not
// set, such as permission_for, with which a client shows a question of the service.
// Arguments without such members, and arguments that cannot be read, are returned unchanged.
func Declared(arguments string) string {
	var in map[string]any
	if json.Unmarshal([]byte(arguments), &in) != nil {
		return arguments
	}

	removed := keepMembers(in, "questions")

	list, _ := in["questions"].([]any)
	for _, question := range list {
		removed = keepMembers(question, "question", "header", "options", "multiSelect") || removed

		if question, ok := question.(map[string]any); ok {
			options, _ := question["options"].([]any)
			for _, option := range options {
				removed = keepMembers(option, "label", "description") || removed
			}
		}
	}

	if !removed {
		return arguments
	}

	declared, err := json.Marshal(in)
	if err != nil {
		return arguments
	}

	return string(declared)
}

// keepMembers removes all other members of an object and reports whether there were any.
func keepMembers(value any, names ...string) (removed bool) {
	object, _ := value.(map[string]any)
	for name := range object {
		if !slices.Contains(names, name) {
			delete(object, name)

			removed = true
		}
	}

	return removed
}

// ParseQuestions reads the questions of an AskUserQuestion call whose arguments
// the registry has admitted, or of a stored question (the bare list).
func ParseQuestions(arguments json.RawMessage) ([]Question, error) {
	var (
		questions []Question
		err       error
	)
	if trimmed := bytes.TrimSpace(arguments); bytes.HasPrefix(trimmed, []byte("[")) {
		err = json.Unmarshal(trimmed, &questions)
	} else {
		in := struct{ Questions *[]Question }{&questions}
		err = json.Unmarshal(arguments, &in)
	}

	if err != nil {
		return nil, domain.Newf(domain.Invalid, domain.CodeInvalidRequest, "the arguments of %s are not valid", tools.AskUserQuestion)
	}

	if len(questions) == 0 {
		return nil, domain.Newf(domain.Invalid, domain.CodeInvalidRequest, "%s needs at least one question", tools.AskUserQuestion)
	}

	for i := range questions {
		questions[i] = questions[i].clean()
	}

	return questions, nil
}

// clean makes a question fit for the database: the arguments that it was read from
// may hold NUL as an escape, which no JSON column takes.
func (q Question) clean() Question {
	q.Question, q.Header = tools.Clean(q.Question), tools.Clean(q.Header)

	options := make([]Option, len(q.Options))
	for i, o := range q.Options {
		options[i] = Option{Label: tools.Clean(o.Label), Description: tools.Clean(o.Description)}
	}

	q.Options = options

	return q
}

// ParseAnswer reads a client's answer as it was sent. Whatever has the wrong
// type, as an option given by its label, is an invalid answer.
func ParseAnswer(sent json.RawMessage) (domain.Answer, error) {
	var answer domain.Answer

	err := json.Unmarshal(sent, &answer)
	if err == nil {
		return answer, nil
	}

	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return domain.Answer{}, invalidAnswer("%s has the wrong type; selections are lists of option indexes, custom is text", wrong.Field)
	}

	return domain.Answer{}, invalidAnswer("the answer is not an object with selections and custom")
}

// CheckAnswer holds an answer to its questions and gives what the model reads of
// it. Every question needs one option (or several,
// where it allows them) or custom text.
func CheckAnswer(questions []Question, answer domain.Answer) (json.RawMessage, error) {
	for _, key := range slices.Sorted(keys(answer.Selections, answer.Custom)) {
		if i, err := strconv.Atoi(key); err != nil || i < 0 || i >= len(questions) || strconv.Itoa(i) != key {
			return nil, invalidAnswer("there is no question %s", tools.Quote(key))
		}
	}

	type answered struct {
		Question string   `json:"question"`
		Selected []string `json:"selected"`
		Custom   string   `json:"custom"`
	}

	result := struct {
		Answers []answered `json:"answers"`
	}{make([]answered, len(questions))}
	for i, question := range questions {
		key := strconv.Itoa(i)

		custom := tools.Clean(answer.Custom[key])
		if strings.TrimSpace(custom) == "" {
			custom = ""
		}

		selected, err := labels(question, key, answer.Selections[key])
		if err != nil {
			return nil, err
		}

		if len(selected) == 0 && custom == "" {
			return nil, invalidAnswer("question %s is not answered", key)
		}

		result.Answers[i] = answered{tools.Clean(question.Question), selected, custom}
	}

	var out bytes.Buffer

	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)

	if err := encoder.Encode(result); err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}

	text := bytes.TrimSpace(out.Bytes())
	if tools.Length(string(text)) > tools.MaxResult {
		return nil, invalidAnswer("the answer is longer than %d characters", tools.MaxResult)
	}

	return text, nil
}

// labels gives the labels of the options that were chosen.
func labels(question Question, key string, chosen []int) ([]string, error) {
	selected := make([]string, 0, len(chosen))
	if len(chosen) > 1 && !question.MultiSelect {
		return nil, invalidAnswer("question %s takes one option", key)
	}

	seen := map[int]bool{}

	for _, index := range chosen {
		if index < 0 || index >= len(question.Options) {
			return nil, invalidAnswer("question %s has no option %d", key, index)
		}

		if seen[index] {
			return nil, invalidAnswer("question %s has option %d chosen twice", key, index)
		}

		seen[index] = true
		selected = append(selected, tools.Clean(question.Options[index].Label))
	}

	return selected, nil
}

func keys(selections map[string][]int, custom map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for key := range selections {
			if !yield(key) {
				return
			}
		}

		for key := range custom {
			if !yield(key) {
				return
			}
		}
	}
}

func invalidAnswer(format string, args ...any) error {
	err := domain.Newf(domain.Invalid, domain.CodeInvalidAnswer, format, args...)
	err.Fields = []domain.Field{{Location: "body.askuser_answer", Message: err.Message}}

	return err
}

// WithSource adds to the arguments of a question which sub-agent asks it.
func WithSource(arguments json.RawMessage, source domain.SourceLoop) (string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(arguments, &fields); err != nil {
		return "", err
	}

	raw, err := json.Marshal(source)
	if err != nil {
		return "", err
	}

	fields["source_loop"] = raw
	out, err := json.Marshal(fields)

	return string(out), err
}
