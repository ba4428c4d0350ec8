package httpx

import (
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

// unkeepable finds the texts of a request that the database does not take
// (domain.TextRule). It refuses them without knowing where they came from.
func unkeepable(c *fiber.Ctx) []domain.Field {
	bad := func(text string) bool { return strings.Contains(text, "\x00") || !utf8.ValidString(text) }

	var out []domain.Field

	found := func(location string) {
		out = append(out, domain.Field{Location: location, Message: domain.TextRule})
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

	for _, location := range domain.UnstorableIn("body", c.Request().Body()) {
		found(location)
	}

	return out
}
