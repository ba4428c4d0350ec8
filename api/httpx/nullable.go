package httpx

import (
	"encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// Nullable is a field of a change that distinguishes null, which empties it, from left
// out, which leaves it as it is. Bounds come from the field's tags.
type Nullable[T any] struct {
	Present bool
	Value   *T
}

// UnmarshalJSON is called only when the field is there.
func (n *Nullable[T]) UnmarshalJSON(data []byte) error {
	n.Present = true
	return json.Unmarshal(data, &n.Value)
}

// Schema implements huma.SchemaProvider.
func (Nullable[T]) Schema(r huma.Registry) *huma.Schema {
	schema := *huma.SchemaFromType(r, reflect.TypeFor[T]())
	schema.Nullable = schema.Type != "" // any value may be null anyway

	return &schema
}
