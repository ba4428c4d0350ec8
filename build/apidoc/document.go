package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// document is what the page shows of an OpenAPI document.
type document struct {
	Tags []struct{ Name, Description string }

	Paths      map[string]map[string]*operation
	Components struct {
		Schemas    map[string]*schema
		Parameters map[string]parameter
	}
}

type operation struct {
	Method, Path string `json:"-"`

	OperationID, Summary, Description string

	Tags        []string
	Parameters  []parameter
	Security    []map[string][]string
	RequestBody *struct{ Content map[string]media }
	Responses   map[string]struct{ Content map[string]media }
	ErrorCodes  map[string][]string `json:"x-error-codes"`
}

type parameter struct {
	Ref                   string `json:"$ref"`
	Name, In, Description string
	Required              bool
	Schema                *schema
}

type media struct {
	Schema  *schema
	Example json.RawMessage
}

type schema struct {
	Ref                 string `json:"$ref"`
	Type                any    // one name, or a list of them
	Description, Format string

	Enum                 []any
	Default              any
	Minimum, Maximum     *json.Number
	MinLength, MaxLength *int
	MinItems, MaxItems   *int
	Pattern              string
	Properties           map[string]*schema
	Required             []string
	Items                *schema
	AnyOf                []*schema
	AdditionalProperties json.RawMessage
}

// operations lists the operations of an area, by path and by what they do.
func (d *document) operations(tag string) []*operation {
	var all []*operation
	for path, item := range d.Paths {
		for method, op := range item {
			if op.Tags[0] == tag {
				op.Method, op.Path = strings.ToUpper(method), path
				all = append(all, op)
			}
		}
	}
	order := []string{"POST", "GET", "PUT", "PATCH", "DELETE"}
	slices.SortFunc(all, func(a, b *operation) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(slices.Index(order, a.Method), slices.Index(order, b.Method)))
	})
	return all
}

// Needs says who may call the operation.
func (o *operation) Needs() string {
	switch scopes := o.Security[0]["bearer"]; {
	case len(o.Security[0]) == 0:
		return "nothing: public"
	case len(scopes) == 0:
		return "any key"
	case scopes[0] == "unrestricted":
		return "a key without scopes"
	case scopes[0] == "admin":
		return "an administrator, scope `admin`"
	default:
		return "scope `" + scopes[0] + "`"
	}
}

// everywhere are codes that most operations have; the page explains them once.
var everywhere = []string{
	"malformed_request", "unauthorized", "scope_missing", "origin_refused", "body_too_large", "unsupported_media_type", "invalid_request",
	"idempotency_key_in_use", "idempotency_key_reused", "rate_limited", "internal_error", "dependency_unavailable",
}

// Codes lists the codes of its own with which an operation may be refused.
func (o *operation) Codes() string {
	var out []string
	for _, status := range sorted(o.ErrorCodes) {
		var codes []string
		for _, code := range o.ErrorCodes[status] {
			if !slices.Contains(everywhere, code) {
				codes = append(codes, "`"+code+"`")
			}
		}
		if len(codes) > 0 {
			out = append(out, status+" "+strings.Join(codes, ", "))
		}
	}
	return strings.Join(out, " · ")
}

// Example shows the request and the answers of the document, as they go over the
// line.
func (o *operation) Example() string {
	var out strings.Builder
	block := func(title, kind string, m media) {
		if len(m.Example) == 0 {
			return
		}
		language, text := "json", pretty(m.Example)
		if json.Unmarshal(m.Example, &text) == nil {
			language = ""
		}
		out.WriteString(title + "\n\n```" + language + "\n" + strings.TrimSpace(text) + "\n```\n\n")
	}
	if o.RequestBody != nil {
		for kind, m := range o.RequestBody.Content {
			title := "Request:"
			if kind != "application/json" {
				title = "Request (`" + kind + "`), its fields:"
			}
			block(title, kind, m)
		}
	}
	for _, status := range sorted(o.Responses) {
		for _, kind := range sorted(o.Responses[status].Content) {
			if status < "300" {
				block("Answer "+status+":", kind, o.Responses[status].Content[kind])
			}
		}
	}
	return out.String()
}

// pretty lays JSON out, with what is short on one line.
func pretty(raw json.RawMessage) string {
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil || out.Len() <= 100 {
		return out.String()
	}
	out.Reset()
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return string(raw)
	}
	return out.String()
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
