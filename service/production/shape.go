package production

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"everloop/domain"
	"everloop/domain/architecture"
	"everloop/domain/dag"
)

// prefix starts the references within the schema of a tool.
const prefix = "#/$defs/"

// shapes are the JSON Schemas of the documents, made from the same types as those of the
// REST interface.
type shapes struct {
	registry huma.Registry
	wholes   map[domain.DocumentKind]*huma.Schema
}

func newShapes() shapes {
	registry := huma.NewMapRegistry(prefix, huma.DefaultSchemaNamer)

	return shapes{registry, map[domain.DocumentKind]*huma.Schema{
		domain.DocumentDAG:          registry.Schema(reflect.TypeFor[dag.Graph](), false, "Graph"),
		domain.DocumentArchitecture: registry.Schema(reflect.TypeFor[architecture.Document](), false, "Architecture"),
	}}
}

// elements returns the JSON Schemas of a node and an edge of a document, whose references
// lead into definitions; an architecture has no edges.
func (s shapes) elements(kind domain.DocumentKind) (node, edge *huma.Schema, definitions map[string]*huma.Schema) {
	node = s.wholes[kind].Properties["nodes"].Items
	if edges := s.wholes[kind].Properties["edges"]; edges != nil {
		edge = edges.Items
	}

	definitions = map[string]*huma.Schema{}
	s.define(node, definitions)
	s.define(edge, definitions)

	return node, edge, definitions
}

// define collects what a schema refers to.
func (s shapes) define(schema *huma.Schema, into map[string]*huma.Schema) {
	if schema == nil {
		return
	}

	if name, ok := strings.CutPrefix(schema.Ref, prefix); ok {
		if into[name] == nil {
			into[name] = s.registry.SchemaFromRef(schema.Ref)
			s.define(into[name], into)
		}

		return
	}

	s.define(schema.Items, into)

	for _, property := range schema.Properties {
		s.define(property, into)
	}
}

// check finds what of a document does not have the shape that the REST interface asks for.
func (s shapes) check(kind domain.DocumentKind, doc any) ([]domain.Finding, error) {
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("encode document: %w", err)
	}

	var free any
	if err := json.Unmarshal(raw, &free); err != nil {
		return nil, fmt.Errorf("read encoded document: %w", err)
	}

	path, result := huma.NewPathBuffer(nil, 0), &huma.ValidateResult{}
	huma.Validate(s.registry, s.wholes[kind], path, huma.ModeWriteToServer, free, result)

	var found []domain.Finding

	for _, problem := range result.Errors {
		finding := domain.Finding{Code: domain.CodeInvalidRequest, Message: problem.Error()}
		if detail, ok := problem.(*huma.ErrorDetail); ok {
			finding.Message, finding.Path = detail.Message, detail.Location
		}

		found = append(found, finding)
	}

	return found, nil
}

// decodeStrictly reads an element. Names that it does not know are rejected.
func decodeStrictly[T any](raw json.RawMessage, path string) (element T, finding *domain.Finding) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()

	if err := decoder.Decode(&element); err != nil {
		message := strings.TrimPrefix(err.Error(), "json: ")
		return element, &domain.Finding{Code: domain.CodeInvalidRequest, Message: message, Path: path}
	}

	return element, nil
}
