package document

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
)

// FieldChange is one field that differs. Field is a path within the element, such as
// config.prompt; a value is absent if the field is missing on its side.
type FieldChange struct {
	Field string `json:"field" doc:"The path of the field within the element." example:"config.prompt"`
	From  any    `json:"from,omitempty" doc:"The value in the first version; left out: none."`
	To    any    `json:"to,omitempty" doc:"The value in the second version; left out: none."`
}

// ElementChange is an element with the same id in both versions that differs.
type ElementChange struct {
	ID     string        `json:"id" doc:"Its id." example:"review"`
	Fields []FieldChange `json:"fields" nullable:"false" doc:"The fields that differ, by name."`
}

// Difference contains the differences between two lists of elements with ids.
type Difference[T any] struct {
	Added   []T             `json:"added" nullable:"false" doc:"Only in the second version."`
	Removed []T             `json:"removed" nullable:"false" doc:"Only in the first version."`
	Changed []ElementChange `json:"changed" nullable:"false" doc:"In both, with other fields."`
}

// Empty reports whether the versions are equal.
func (d Difference[T]) Empty() bool { return len(d.Added)+len(d.Removed)+len(d.Changed) == 0 }

// Compare returns the differences between two lists, by the ids of their elements. Of elements
// with the same id, which an invalid document may have, the first of one list is compared with
// the first of the other, and so on.
func Compare[T any](from, to []T, id func(T) string) (Difference[T], error) {
	d := Difference[T]{Added: []T{}, Removed: []T{}, Changed: []ElementChange{}}
	before := byID(from, id)
	kept := map[string]bool{}

	for _, key := range orderedIDs(to, id) {
		now := key.element

		old, found := before[key.name]
		if !found {
			d.Added = append(d.Added, now)
			continue
		}

		kept[key.name] = true

		fields, err := fieldChanges(old, now)
		if err != nil {
			return d, err
		}

		if len(fields) > 0 {
			d.Changed = append(d.Changed, ElementChange{id(now), fields})
		}
	}

	for _, key := range orderedIDs(from, id) {
		if !kept[key.name] {
			d.Removed = append(d.Removed, key.element)
		}
	}

	return d, nil
}

type named[T any] struct {
	name    string // the id and the number of its occurrence
	element T
}

func orderedIDs[T any](list []T, id func(T) string) []named[T] {
	seen := map[string]int{}

	out := make([]named[T], len(list))
	for i, element := range list {
		seen[id(element)]++
		out[i] = named[T]{id(element) + "\x00" + strconv.Itoa(seen[id(element)]), element}
	}

	return out
}

func byID[T any](list []T, id func(T) string) map[string]T {
	out := map[string]T{}
	for _, key := range orderedIDs(list, id) {
		out[key.name] = key.element
	}

	return out
}

func fieldChanges(from, to any) ([]FieldChange, error) {
	a, err := object(from)
	if err != nil {
		return nil, err
	}

	b, err := object(to)
	if err != nil {
		return nil, err
	}

	return compareObjects("", a, b, nil), nil
}

func object(element any) (map[string]any, error) {
	raw, err := json.Marshal(element)
	if err != nil {
		return nil, fmt.Errorf("encode element: %w", err)
	}

	var fields map[string]any

	return fields, json.Unmarshal(raw, &fields)
}

// compareObjects recurses into objects that are on both sides. Lists are compared whole.
func compareObjects(path string, from, to map[string]any, found []FieldChange) []FieldChange {
	names := map[string]bool{}
	for name := range from {
		names[name] = true
	}

	for name := range to {
		names[name] = true
	}

	for _, name := range slices.Sorted(maps.Keys(names)) {
		at := name
		if path != "" {
			at = path + "." + name
		}

		a, inFrom := from[name].(map[string]any)

		b, inTo := to[name].(map[string]any)
		switch {
		case inFrom && inTo:
			found = compareObjects(at, a, b, found)
		case !reflect.DeepEqual(from[name], to[name]):
			found = append(found, FieldChange{at, from[name], to[name]})
		}
	}

	return found
}
