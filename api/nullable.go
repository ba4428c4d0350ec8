package api

import (
	"encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// nullable is a field of a change that tells null, which empties it, from left
// out, which leaves it as it is. Bounds come from the field's tags.
type nullable[T any] struct {
	present bool
	value   *T
}

// UnmarshalJSON is called only when the field is there.
func (n *nullable[T]) UnmarshalJSON(data []byte) error {
	n.present = true
	return json.Unmarshal(data, &n.value)
}

// Schema implements huma.SchemaProvider.
func (nullable[T]) Schema(r huma.Registry) *huma.Schema {
	schema := *huma.SchemaFromType(r, reflect.TypeFor[T]())
	schema.Nullable = true
	return &schema
}
