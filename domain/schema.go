package domain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxSchemaBytes bounds a client's output_schema.
const maxSchemaBytes = 256 << 10

// CompileSchema checks a client's JSON Schema (2020-12 unless it says draft-07)
// and makes it ready to validate answers. Nothing is ever loaded from outside.
func CompileSchema(raw json.RawMessage) (*jsonschema.Schema, error) {
	if len(raw) > maxSchemaBytes {
		return nil, Newf(Invalid, CodeInvalidSchema, "output_schema is larger than %d bytes", maxSchemaBytes)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, &Error{Kind: Invalid, Code: CodeInvalidSchema, Message: "output_schema is not JSON"}
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	const name = "urn:everloop:output_schema"
	if err := compiler.AddResource(name, doc); err != nil {
		return nil, invalidSchema(err)
	}
	schema, err := compiler.Compile(name)
	if err != nil {
		return nil, invalidSchema(err)
	}
	return schema, nil
}

func invalidSchema(err error) *Error {
	reason, _, _ := strings.Cut(err.Error(), "\n")
	return Newf(Invalid, CodeInvalidSchema, "output_schema is not a valid JSON Schema: %.300s", reason)
}

type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("schemas cannot refer to other documents")
}

// ParseJSON reads exactly one JSON value, numbers kept exact.
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
