// Package eventschema builds docs/events.json, the JSON Schema of every event that
// the service sends, from the declarations in package domain.
package eventschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"everloop/api/openapi"
	"everloop/domain"
)

const (
	prefix = "#/$defs/"

	about = "Events of Everloop, from the service to the client. An event is its name and its data: the two arguments of a Socket.IO " +
		"event, or the fields event and data of a server-sent event. The schema of the data of an event is at #/$defs/ and its name. " +
		"It is generated from the Go declarations and holds for this version of the service: later ones may add fields."
)

// Document returns the JSON Schema (2020-12) of the events.
func Document() ([]byte, error) {
	schemas := openapi.NewSchemas(prefix, huma.DefaultSchemaNamer)
	envelope := schemas.Schema(reflect.TypeFor[domain.EventEnvelope](), false, "")
	events, definitions := []any{}, map[string]any{}

	for _, event := range domain.DeclaredEvents() {
		for _, payload := range event.Payloads { // adds the referenced types to the registry
			schemas.Schema(reflect.TypeOf(payload), true, "")
		}
	}

	openapi.CompleteSchemas(schemas, prefix)

	whole := map[string]bool{"EventEnvelope": true} // defined as a part of an event

	for _, event := range domain.DeclaredEvents() {
		var variants []any

		for _, payload := range event.Payloads {
			name := reflect.TypeOf(payload).Name()
			if whole[name] {
				return nil, fmt.Errorf("%s is the payload of two events", name)
			}

			whole[name] = true

			data := *schemas.Map()[name]
			if !event.Unlogged {
				addEnvelope(&data, envelope, event.OfChat)
			}

			variants = append(variants, &data)
		}

		definitions[event.Name] = describe(event, variants)
		events = append(events, map[string]any{
			"title": event.Name, "description": event.Meaning, "x-direction": "service to client",
			"properties": map[string]any{"name": map[string]any{"const": event.Name}, "data": map[string]any{"$ref": prefix + event.Name}},
		})
	}

	for name, schema := range schemas.Map() {
		if !whole[name] {
			definitions[name] = schema
		}
	}

	return indented(map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Events of Everloop", "description": about,
		"type": "object", "required": []string{"name", "data"}, "oneOf": events, "$defs": definitions,
	})
}

// addEnvelope adds the common fields of all events of the log.
func addEnvelope(data, envelope *huma.Schema, ofChat bool) {
	properties := maps.Clone(envelope.Properties)
	maps.Copy(properties, data.Properties)
	properties["session_id"] = envelope.Properties["session_id"] // also for events with their own session_id
	data.Properties = properties

	data.Required = append(append([]string{}, envelope.Required...), data.Required...)
	if ofChat {
		data.Required = append(data.Required, "chat_id")
	}
}

// describe returns the schema of an event's data.
func describe(event domain.DeclaredEvent, variants []any) any {
	if len(variants) == 1 {
		schema := variants[0].(*huma.Schema)
		schema.Title, schema.Description = event.Name, event.Meaning

		return schema
	}

	return map[string]any{
		"title": event.Name, "description": event.Meaning, "type": "object", "required": []string{"patch_type"},
		"discriminator": map[string]any{"propertyName": "patch_type"}, "oneOf": variants,
	}
}

// indented encodes a document, indented with tabs.
func indented(document any) ([]byte, error) {
	var out bytes.Buffer

	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "\t")
	err := encoder.Encode(document)

	return out.Bytes(), err
}
