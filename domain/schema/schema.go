// Package schema checks the JSON Schemas of clients, and answers against them, within bounds of
// work and size. It does not load external schemas and does not depend on chats.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"everloop/domain"
)

// maxSchemaBytes bounds a client's output_schema.
const maxSchemaBytes = 256 << 10

// Schema is a client's JSON Schema, ready to validate answers.
type Schema struct {
	compiled *jsonschema.Schema
	cost     *costs
	patterns *patterns
}

// Compile compiles a client's JSON Schema (2020-12 unless it declares draft-07) to validate
// answers. It does not load external schemas, and rejects a schema that costs too much.
func Compile(raw json.RawMessage) (schema *Schema, err error) {
	if len(raw) > maxSchemaBytes {
		return nil, domain.Newf(domain.Invalid, domain.CodeInvalidSchema, "output_schema is larger than %d bytes", maxSchemaBytes)
	}

	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, &domain.Error{Kind: domain.Invalid, Code: domain.CodeInvalidSchema, Message: "output_schema is not JSON"}
	}

	switch _, depth, number := measure(doc); {
	case depth > maxSchemaDepth:
		return nil, domain.Newf(domain.Invalid, domain.CodeInvalidSchema, "output_schema is nested more than %d deep", maxSchemaDepth)
	case number != "":
		return nil, domain.Newf(domain.Invalid, domain.CodeInvalidSchema, "output_schema holds a number that is too long: %.40s", number)
	}

	defer func() { // the library may panic on clients' input
		if p := recover(); p != nil {
			schema, err = nil, domain.Newf(domain.Invalid, domain.CodeInvalidSchema, "output_schema cannot be used")
		}
	}()

	compiler, patterns := jsonschema.NewCompiler(), &patterns{}
	compiler.UseLoader(noLoader{})
	compiler.UseRegexpEngine(patterns.compile)

	const name = "urn:everloop:output_schema"
	if err := compiler.AddResource(name, doc); err != nil {
		return nil, invalidSchema(err)
	}

	compiled, err := compiler.Compile(name)
	if err != nil {
		return nil, invalidSchema(err)
	}

	schema = &Schema{compiled, newCosts(compiled), patterns}
	if schema.cost.of(compiled, 0) > maxSchemaPlace {
		return nil, domain.Newf(domain.Invalid, domain.CodeInvalidSchema, "output_schema applies too many schemas to one value")
	}

	return schema, nil
}

// Validate returns an error if a value that ParseJSON has read does not match the schema.
func (s *Schema) Validate(value any) (err error) {
	count, depth, number := measure(value)
	if number != "" {
		return fmt.Errorf("the number %.40s is too long to be checked", number)
	}

	if count > maxSchemaWork || s.cost.of(s.compiled, depth)*count > maxSchemaWork {
		return errors.New("the answer is too large to be checked against this schema")
	}

	defer func() {
		if p := recover(); p != nil {
			err = errors.New("the answer could not be checked")
		}
	}()

	err = s.compiled.Validate(value)
	if s.patterns.exhausted() {
		return errors.New("the answer is too large to be checked against the patterns of this schema")
	}

	return placed(err)
}

// invalidSchema returns the error with the invalid locations.
func invalidSchema(err error) *domain.Error {
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		err = placed(invalid.Err)
	}

	return domain.Newf(domain.Invalid, domain.CodeInvalidSchema, "output_schema is not a valid JSON Schema: %.500s", err)
}

// placed returns the faults in one line, each with its path in the value.
func placed(err error) error {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return err
	}

	var faults []string

	collect(invalid, &faults)
	slices.Sort(faults)

	return errors.New(strings.Join(slices.Compact(faults), "; "))
}

var english = message.NewPrinter(language.English)

// collect gathers the innermost faults: the others only report that these make a value invalid.
func collect(e *jsonschema.ValidationError, faults *[]string) {
	for _, cause := range e.Causes {
		collect(cause, faults)
	}

	if len(e.Causes) > 0 {
		return
	}

	fault := e.ErrorKind.LocalizedString(english)
	if len(e.InstanceLocation) > 0 {
		fault = "/" + strings.Join(e.InstanceLocation, "/") + ": " + fault
	}

	*faults = append(*faults, fault)
}

type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("schemas cannot refer to other documents")
}

// ParseJSON parses exactly one JSON value with exact numbers.
func ParseJSON(text string) (any, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()

	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}

	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("more text follows the value")
	}

	return value, nil
}

// JSONAnswer returns the one JSON value of an answer, as the model wrote it, without
// surrounding white space, including white space that JSON does not define, such as U+00A0. It
// strips one think block before the value, and one fence around it. The result can be embedded
// in another document.
func JSONAnswer(answer string) (json.RawMessage, error) {
	text := strings.TrimSpace(answer)
	if _, err := ParseJSON(text); err != nil {
		if text = unwrapped(text); text == "" {
			return nil, err
		}

		if _, inner := ParseJSON(text); inner != nil {
			return nil, err
		}
	}

	return json.Marshal(json.RawMessage(text))
}

var (
	thinkBlock = regexp.MustCompile(`(?s)^<think(?:ing)?>.*?</think(?:ing)?>\s*`)
	fenced     = regexp.MustCompile("(?s)^(?:```+|~~~+)[ \\t]*[A-Za-z0-9_+-]*[ \\t]*\\r?\\n(.*?)\\r?\\n?[ \\t]*(?:```+|~~~+)$")
)

// unwrapped returns an answer without the think block before it and the fence around it.
func unwrapped(answer string) string {
	answer = strings.TrimSpace(thinkBlock.ReplaceAllString(answer, ""))
	if inner := fenced.FindStringSubmatch(answer); inner != nil {
		return strings.TrimSpace(inner[1])
	}

	return answer
}
