package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/template"
)

//go:embed page.md.tmpl
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"anchor": anchor}).Parse(pageText))

// row is a line of a table of parameters or fields.
type row struct{ Name, Type, About string }

// answer is what an operation gives with one status.
type answer struct {
	Status, What string
	Rows         []row
}

type shownOperation struct {
	*operation
	Parameters, Request []row
	Answers             []answer
}

// object is a schema that several operations share.
type object struct {
	Name string
	Rows []row
}

type writer struct {
	*document
	shared map[string]bool // schemas with a section of their own
}

func (d *document) page() ([]byte, error) {
	w := &writer{document: d, shared: map[string]bool{}}
	type area struct {
		Name, Description string
		Operations        []shownOperation
	}
	var areas []area
	used := map[string]int{}
	for _, tag := range d.Tags {
		for _, op := range d.operations(tag.Name) {
			for _, response := range op.Responses {
				for _, m := range response.Content {
					d.count(m.Schema, used, map[string]bool{})
				}
			}
		}
	}
	for name, n := range used {
		w.shared[name] = n > 1 && len(d.Components.Schemas[name].Properties) > 3
	}
	for _, tag := range d.Tags {
		a := area{Name: tag.Name, Description: tag.Description}
		for _, op := range d.operations(tag.Name) {
			a.Operations = append(a.Operations, w.show(op))
		}
		areas = append(areas, a)
	}
	var objects []object
	for _, name := range sorted(w.shared) {
		if w.shared[name] {
			objects = append(objects, object{name, w.rows("", d.Components.Schemas[name], nil)})
		}
	}
	var out bytes.Buffer
	err := pageTemplate.Execute(&out, map[string]any{"Areas": areas, "Objects": objects})
	return out.Bytes(), err
}

// count counts how many answers hold a schema.
func (d *document) count(s *schema, used map[string]int, seen map[string]bool) {
	if s == nil {
		return
	}
	name := s.name()
	if name != "" {
		if seen[name] {
			return
		}
		seen[name] = true
		used[name]++
		s = d.Components.Schemas[name]
	}
	d.count(s.Items, used, seen)
	for _, inner := range s.AnyOf {
		d.count(inner, used, seen)
	}
	for _, property := range s.Properties {
		d.count(property, used, seen)
	}
}

// name is the name of the schema that is referred to.
func (s *schema) name() string { return strings.TrimPrefix(s.Ref, "#/components/schemas/") }

func (w *writer) show(op *operation) shownOperation {
	shown := shownOperation{operation: op}
	for _, p := range op.Parameters {
		if p.Ref != "" {
			continue // Idempotency-Key: the page explains it once
		}
		name := "`" + p.Name + "`"
		if p.Required && p.In != "path" {
			name += " *"
		}
		shown.Parameters = append(shown.Parameters, row{name + " " + p.In, w.typeOf(p.Schema), escape(p.Description)})
	}
	if op.RequestBody != nil {
		for _, m := range op.RequestBody.Content {
			shown.Request = w.rows("", m.Schema, map[string]bool{})
		}
	}
	for _, status := range sorted(op.Responses) {
		if status >= "400" {
			continue
		}
		response := op.Responses[status]
		if len(response.Content) == 0 {
			shown.Answers = append(shown.Answers, answer{Status: status, What: "without a body"})
		}
		for _, kind := range sorted(response.Content) {
			m := response.Content[kind]
			if kind != "application/json" || m.Schema == nil {
				shown.Answers = append(shown.Answers, answer{Status: status, What: "`" + kind + "`"})
				continue
			}
			a := answer{Status: status, What: w.typeOf(m.Schema)}
			if target := w.target(m.Schema); target != nil && !w.shared[target.name()] {
				a.Rows = w.rows("", target, nil)
			}
			shown.Answers = append(shown.Answers, a)
		}
	}
	return shown
}

// target finds the object of an answer, below the list that it may be.
func (w *writer) target(s *schema) *schema {
	if s.Items != nil {
		return w.target(s.Items)
	}
	if s.Ref != "" || len(s.Properties) > 0 {
		return s
	}
	return nil
}

// rows lists the fields of an object, those of objects in it by their path. A
// shared object is only named where its section is; in a request, where seen is
// not nil, all is laid out.
func (w *writer) rows(prefix string, s *schema, seen map[string]bool) []row {
	if s.Ref != "" {
		s = w.Components.Schemas[s.name()]
	}
	var out []row
	names := sorted(s.Properties)
	slices.SortStableFunc(names, func(a, b string) int { // what is required first
		return boolOrder(slices.Contains(s.Required, b)) - boolOrder(slices.Contains(s.Required, a))
	})
	for _, name := range names {
		property := s.Properties[name]
		shownName := "`" + prefix + name + "`"
		if slices.Contains(s.Required, name) && seen != nil {
			shownName += " *"
		} else if seen == nil && !slices.Contains(s.Required, name) {
			shownName += " ?"
		}
		out = append(out, row{shownName, w.typeOf(property), escape(property.Description)})
		inner, path := property, prefix+name+"."
		for _, choice := range property.AnyOf {
			if choice.Ref != "" {
				inner = choice
			}
		}
		if inner.Items != nil {
			inner, path = inner.Items, prefix+name+"[]."
		}
		if inner.Ref == "" && len(inner.Properties) == 0 || seen == nil && w.shared[inner.name()] || strings.Count(path, ".") > 4 {
			continue
		}
		out = append(out, w.rows(path, inner, seen)...)
	}
	return out
}

func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}

// typeOf says in words what a value may be.
func (w *writer) typeOf(s *schema) string {
	if s == nil {
		return ""
	}
	if name := s.name(); name != "" {
		if w.shared[name] {
			return "[" + name + "](#" + strings.ToLower(name) + "-object)"
		}
		return "object"
	}
	if len(s.AnyOf) > 0 {
		return w.typeOf(s.AnyOf[0]) + " or null"
	}
	kind, null := "any", ""
	switch t := s.Type.(type) {
	case string:
		kind = t
	case []any:
		kind, null = fmt.Sprint(t[0]), ", or null"
	}
	switch {
	case len(s.Enum) > 0:
		var values []string
		for _, v := range s.Enum {
			if v != nil {
				values = append(values, fmt.Sprintf("`%v`", v))
			}
		}
		kind = strings.Join(values, ", ")
	case s.Items != nil:
		kind = "array of " + w.typeOf(s.Items)
	case strings.HasPrefix(string(s.AdditionalProperties), "{"):
		var values schema
		if json.Unmarshal(s.AdditionalProperties, &values) == nil {
			kind = "map of " + w.typeOf(&values)
		}
	case s.Format == "date-time":
		kind = "time"
	case s.Format == "binary":
		kind = "bytes"
	}
	return kind + null + s.bounds()
}

// bounds says in words what the values may measure.
func (s *schema) bounds() string {
	var out []string
	between := func(low, high any, hasLow, hasHigh bool, unit string) {
		switch {
		case hasLow && hasHigh:
			out = append(out, fmt.Sprintf("%v to %v%s", low, high, unit))
		case hasLow:
			out = append(out, fmt.Sprintf("at least %v%s", low, unit))
		case hasHigh:
			out = append(out, fmt.Sprintf("at most %v%s", high, unit))
		}
	}
	between(deref(s.Minimum), deref(s.Maximum), s.Minimum != nil, s.Maximum != nil, "")
	between(deref(s.MinLength), deref(s.MaxLength), s.MinLength != nil, s.MaxLength != nil, " characters")
	between(deref(s.MinItems), deref(s.MaxItems), s.MinItems != nil, s.MaxItems != nil, " items")
	if s.Default != nil {
		out = append(out, fmt.Sprintf("default %v", s.Default))
	}
	if len(out) == 0 {
		return ""
	}
	return ", " + strings.Join(out, ", ")
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// escape keeps words from being taken for Markdown.
func escape(text string) string {
	return strings.NewReplacer("|", "\\|", "*", "\\*", "<", "&lt;").Replace(text)
}

// anchor is the anchor of a heading.
func anchor(heading string) string {
	return strings.ReplaceAll(strings.ToLower(heading), " ", "-")
}
