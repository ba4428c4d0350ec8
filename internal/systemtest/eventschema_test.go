package systemtest

import (
	"bytes"
	"os"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// eventSchemas are the schemas of docs/events.json, by the name of the event.
var eventSchemas = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	text, err := os.ReadFile("../../docs/events.json")
	if err != nil {
		return nil, err
	}

	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}

	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()

	if err := compiler.AddResource("mem:///events.json", document); err != nil {
		return nil, err
	}

	schemas := map[string]*jsonschema.Schema{}
	for _, event := range domain.DeclaredEvents() {
		if schemas[event.Name], err = compiler.Compile("mem:///events.json#/$defs/" + event.Name); err != nil {
			return nil, err
		}
	}

	return schemas, nil
})

// fitsSchema holds an event to docs/events.json.
func fitsSchema(e domain.LoggedEvent) error {
	schemas, err := eventSchemas()
	if err != nil {
		return err
	}

	schema := schemas[e.Name]
	if schema == nil {
		return domain.Newf(domain.Internal, "undeclared_event", "%s is not declared", e.Name)
	}

	data, err := jsonschema.UnmarshalJSON(bytes.NewReader(e.Wire()))
	if err != nil {
		return err
	}

	return schema.Validate(data)
}

// holdToSchema holds the events of a session that it has not seen yet to docs/events.json.
func (s *stack) holdToSchema(sessionID domain.SessionID, events []domain.LoggedEvent) {
	s.t.Helper()

	var upTo uint64
	if seen, ok := s.checked.Load(sessionID); ok {
		upTo = seen.(uint64)
	}

	for _, e := range events {
		if e.Seq > upTo {
			require.NoError(s.t, fitsSchema(e), "%s: %s", e.Name, e.Wire())
			s.checked.Store(sessionID, e.Seq)
		}
	}
}
