package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// schema checks the arguments of one tool.
type schema struct{ compiled *jsonschema.Schema }

// noRemote refuses every schema that is not given whole.
type noRemote struct{}

func (noRemote) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not allowed")
}

func compileSchema(source json.RawMessage) (*schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(source))
	if err != nil {
		return nil, err
	}

	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noRemote{})

	// A URL with a scheme: the compiler resolves a bare name to a file of the working
	// directory, and its errors show that path.
	const address = "tool:///arguments"

	if err := compiler.AddResource(address, document); err != nil {
		return nil, err
	}

	compiled, err := compiler.Compile(address)
	if err != nil {
		return nil, err
	}

	return &schema{compiled}, nil
}

// check returns the arguments as JSON that fits the schema, or reports to the model what is
// wrong with them, without repeating them. No text at all stands for an object without
// members. Text that is almost JSON is repaired, and values are converted, where there is
// only one reading.
func (s *schema) check(arguments string) (checked json.RawMessage, problem string) {
	if strings.TrimSpace(arguments) == "" {
		arguments = "{}"
	}

	text, value, err := parseArguments(arguments)
	if err != nil {
		return nil, malformed(err)
	}

	err = s.compiled.Validate(value)
	if err == nil {
		return json.RawMessage(text), ""
	}

	if converted, ok := s.convert(value, err); ok {
		return converted, ""
	}

	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return nil, "they could not be checked against the schema."
	}

	var problems []string
	collect(invalid, &problems)

	const most = 8
	if len(problems) > most {
		problems = append(problems[:most], fmt.Sprintf("and %d more", len(problems)-most))
	}

	return nil, strings.Join(problems, "; ") + "."
}

// parseArguments parses arguments, repaired if need be. Arguments within a JSON string are
// taken out of it.
func parseArguments(arguments string) (text string, value any, err error) {
	text, value, err = parseRepaired(arguments)
	if inner, quoted := value.(string); err == nil && quoted {
		if innerText, object, err := parseRepaired(inner); err == nil {
			if _, ok := object.(map[string]any); ok {
				return innerText, object, nil
			}
		}
	}

	return text, value, err
}

func parseRepaired(arguments string) (text string, value any, err error) {
	if value, err = parseJSON(arguments); err == nil {
		return arguments, value, nil
	}

	repaired, ok := repair(arguments)
	if !ok {
		return "", nil, err
	}

	value, repairedErr := parseJSON(repaired)
	if repairedErr != nil {
		return "", nil, err
	}

	return repaired, value, nil
}

func parseJSON(text string) (any, error) {
	// encoding/json first: it bounds the depth, and its errors name the place.
	var anything any
	if err := json.Unmarshal([]byte(text), &anything); err != nil {
		return nil, err
	}

	return jsonschema.UnmarshalJSON(strings.NewReader(text))
}

func malformed(err error) string {
	if at, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("they are not valid JSON (at byte %d: %s). Send one JSON object.", at.Offset, at.Error())
	}

	if errors.Is(err, io.ErrUnexpectedEOF) {
		return "they are not valid JSON: the text ends too soon. Send one JSON object."
	}

	return "they are not valid JSON. Send one JSON object."
}

var english = message.NewPrinter(language.English)

// collect gathers the leaves of a validation error as sentences.
func collect(e *jsonschema.ValidationError, problems *[]string) {
	if len(e.Causes) > 0 {
		for _, cause := range e.Causes {
			collect(cause, problems)
		}

		return
	}

	*problems = append(*problems, place(e.InstanceLocation)+describe(e.ErrorKind))
}

func place(location []string) string {
	if len(location) == 0 {
		return ""
	}

	return Cut(Clean(strings.Join(location, ".")), 100) + ": "
}

// describe says in words what a keyword of the schema missed. Values of the
// arguments are left out: they may be long, and may be secrets.
func describe(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Required:
		return "missing " + strings.Join(k.Missing, ", ")
	case *kind.AdditionalProperties:
		var names []string
		for _, name := range k.Properties[:min(len(k.Properties), 5)] {
			names = append(names, Quote(name))
		}

		return "unknown argument " + strings.Join(names, ", ")
	case *kind.Type:
		return fmt.Sprintf("must be of type %s, not %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Minimum:
		return "must be at least " + number(k.Want.Float64())
	case *kind.Maximum:
		return "must be at most " + number(k.Want.Float64())
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters", k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %d items", k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d items", k.Want)
	case *kind.Pattern, *kind.Format:
		return "does not have the form that is asked for"
	default:
		return Cut(Clean(k.LocalizedString(english)), 200)
	}
}

func number(value float64, _ bool) string {
	return fmt.Sprintf("%.0f", value)
}

// Decode reads checked arguments into a tool's own struct.
func Decode[T any](arguments json.RawMessage) (T, error) {
	var in T
	if err := json.Unmarshal(arguments, &in); err != nil {
		return in, fmt.Errorf("arguments passed the schema but do not decode: %w", err)
	}

	return in, nil
}

// Whole is an integer argument. Models write 5000 as 5000.0 or 5e3 too.
type Whole int

// UnmarshalJSON takes a whole number in every form that JSON has for it.
func (w *Whole) UnmarshalJSON(data []byte) error {
	var value float64
	if err := json.Unmarshal(data, &value); err != nil {
		return err
	}
	// Beyond what an int holds on every machine, more is the same as much.
	*w = Whole(math.Max(math.MinInt32, math.Min(math.MaxInt32, value)))

	return nil
}
