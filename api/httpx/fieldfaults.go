package httpx

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"everloop/domain"
)

// At names the field at fault in a refusal that comes from further in, where
// the request has no name for it. Other errors pass unchanged.
func At(location string, err error) error {
	e, ok := err.(*domain.Error)
	if !ok || e.Kind != domain.Invalid || len(e.Fields) > 0 {
		return err
	}

	named := *e
	named.Fields = []domain.Field{{Location: location, Message: e.Message}}

	return &named
}

// unkeepable finds the text of a request that the database cannot keep: one with a
// NUL character, or with bytes that are not UTF-8. They refuse it without knowing
// where it came from.
func unkeepable(c *fiber.Ctx) []domain.Field {
	bad := func(text string) bool { return strings.Contains(text, "\x00") || !utf8.ValidString(text) }

	var out []domain.Field

	found := func(location string) {
		out = append(out, domain.Field{Location: location, Message: "may hold neither NUL characters nor bytes that are not UTF-8"})
	}

	for _, name := range slices.Sorted(maps.Keys(c.Queries())) {
		if bad(c.Queries()[name]) {
			found("query." + name)
		}
	}

	for _, name := range c.Route().Params {
		if bad((&exchange{c: c}).Param(name)) {
			found("path." + name)
		}
	}

	if RequestOf(c.UserContext()).body != nil {
		return out // a form, which its handler has read
	}

	var body any
	if json.Unmarshal(c.Request().Body(), &body) != nil {
		return out
	}

	var look func(location string, value any)

	look = func(location string, value any) {
		switch v := value.(type) {
		case string:
			if bad(v) {
				found(location)
			}
		case []any:
			for i, element := range v {
				look(fmt.Sprintf("%s[%d]", location, i), element)
			}
		case map[string]any:
			if slices.ContainsFunc(slices.Collect(maps.Keys(v)), bad) {
				found(location)
				return
			}

			for _, name := range slices.Sorted(maps.Keys(v)) {
				look(location+"."+name, v[name])
			}
		}
	}
	look("body", body)

	return out
}
