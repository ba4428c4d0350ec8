package schema

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds of the cost of a client's schema: it is compiled and used in the service's own
// processes, and validation cannot be interrupted.
const (
	maxSchemaDepth  = 64      // nested values in the schema; the time of its check grows superlinearly with them
	maxSchemaWork   = 500_000 // steps of one validation
	maxSchemaPlace  = 10_000  // steps at one place of a value
	maxNumberLength = 400     // characters of a number, or its exponent: numbers are checked exactly
)

// costs computes how often, at most, a schema and its parts are applied to values on one path
// from the root of a value to a leaf. References multiply: forty small schemas can require too
// many steps.
type costs struct {
	known   map[costKey]int
	open    map[*jsonschema.Schema]bool // applied to the same value already: a cycle, which validation rejects
	dynamic map[string][]*jsonschema.Schema
}

type costKey struct {
	schema *jsonschema.Schema
	depth  int
}

func newCosts(root *jsonschema.Schema) *costs {
	c := &costs{known: map[costKey]int{}, open: map[*jsonschema.Schema]bool{}, dynamic: map[string][]*jsonschema.Schema{}}
	seen := map[*jsonschema.Schema]bool{}

	left := []*jsonschema.Schema{root}
	for len(left) > 0 {
		s := left[len(left)-1]
		left = left[:len(left)-1]

		if s == nil || seen[s] {
			continue
		}

		seen[s] = true
		if s.DynamicAnchor != "" {
			c.dynamic[s.DynamicAnchor] = append(c.dynamic[s.DynamicAnchor], s)
		}

		if s.RecursiveAnchor {
			c.dynamic[""] = append(c.dynamic[""], s)
		}

		left = append(left, inPlace(s)...)
		named, others := inside(s)
		left = append(append(left, named...), others...)
	}

	return c
}

// of returns the steps for a value that nests depth levels; saturated.
func (c *costs) of(s *jsonschema.Schema, depth int) int {
	key := costKey{s, depth}
	if cost, ok := c.known[key]; ok {
		return cost
	}

	if s == nil || c.open[s] {
		return 0
	}

	c.open[s] = true

	cost := 1
	for _, same := range inPlace(s) {
		cost += c.of(same, depth)
	}

	if s.DynamicRef != nil {
		cost += c.most(c.dynamic[s.DynamicRef.Anchor], depth)
	}

	if s.RecursiveRef != nil {
		cost += c.most(c.dynamic[""], depth)
	}

	delete(c.open, s)

	if depth > 0 {
		open := c.open
		c.open = map[*jsonschema.Schema]bool{} // another place
		named, others := inside(s)

		cost += c.most(named, depth-1)
		for _, other := range others {
			cost += c.of(other, depth-1)
		}

		c.open = open
	}

	cost = min(cost, maxSchemaWork+1)
	c.known[key] = cost

	return cost
}

func (c *costs) most(schemas []*jsonschema.Schema, depth int) (most int) {
	for _, s := range schemas {
		most = max(most, c.of(s, depth))
	}

	return most
}

// inPlace returns the subschemas that are applied to the same value.
func inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	parts := []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}
	if s.DynamicRef != nil {
		parts = append(parts, s.DynamicRef.Ref)
	}

	parts = append(append(append(parts, s.AllOf...), s.AnyOf...), s.OneOf...)
	for _, part := range s.DependentSchemas {
		parts = append(parts, part)
	}

	for _, part := range s.Dependencies {
		parts = append(parts, schemasIn(part)...)
	}

	return present(parts)
}

// inside returns the subschemas that are applied to members of a value: of named, each member
// has at most one; of others, a member can have all.
func inside(s *jsonschema.Schema) (named, others []*jsonschema.Schema) {
	for _, part := range s.Properties {
		named = append(named, part)
	}

	named = append(append(named, s.PrefixItems...), present(schemasIn(s.Items))...)

	others = []*jsonschema.Schema{s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema}
	for _, part := range s.PatternProperties {
		others = append(others, part)
	}

	others = append(append(others, schemasIn(s.AdditionalProperties)...), schemasIn(s.AdditionalItems)...)

	return present(named), present(others)
}

func schemasIn(part any) []*jsonschema.Schema {
	switch part := part.(type) {
	case *jsonschema.Schema:
		return []*jsonschema.Schema{part}
	case []*jsonschema.Schema:
		return part
	default:
		return nil
	}
}

func present(schemas []*jsonschema.Schema) []*jsonschema.Schema {
	kept := schemas[:0]
	for _, s := range schemas {
		if s != nil {
			kept = append(kept, s)
		}
	}

	return kept
}

// measure returns the number of values in a value, their nesting depth, and a number in it that
// is too long to process; "": none.
func measure(value any) (count, depth int, number string) {
	count = 1
	add := func(member any) {
		n, d, bad := measure(member)
		count, depth = count+n, max(depth, d+1)

		if bad != "" {
			number = bad
		}
	}

	switch value := value.(type) {
	case map[string]any:
		for _, member := range value {
			add(member)
		}
	case []any:
		for _, member := range value {
			add(member)
		}
	case json.Number:
		if tooLong(value.String()) {
			number = value.String()
		}
	}

	return count, depth, number
}

func tooLong(number string) bool {
	_, exponent, found := strings.Cut(strings.ToLower(number), "e")
	if !found {
		return len(number) > maxNumberLength
	}

	e, err := strconv.Atoi(exponent)

	return err != nil || e > maxNumberLength || e < -maxNumberLength || len(number) > maxNumberLength
}
