package model

import (
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"

	"everloop/domain"
)

// feature is an optional part of a request that some servers refuse.
type feature string

const (
	featureReasoning  feature = "reasoning"                  // reasoning of earlier turns
	featureMembers    feature = "members of the server"      // stored members of earlier turns
	featureUsage      feature = "stream_options"             // the usage report
	featureSchema     feature = "response_format"            // the loop validates the answer in any case
	featureToolSchema feature = "response_format with tools" // servers that accept only one of the two
)

// namedFeatures match errors that name a feature, in lower case.
var namedFeatures = map[feature]*regexp.Regexp{
	featureReasoning: regexp.MustCompile(`reasoning|thinking`),
	featureMembers: regexp.MustCompile(
		`signature|extra_content|extra[_ ](inputs|fields|forbidden)|` +
			`(unknown|unrecognized|unexpected|additional) (\w+ )?(field|parameter|name|member|key|propert)`,
	),
	featureUsage: regexp.MustCompile(`stream_?options|include_usage`),
	featureSchema: regexp.MustCompile(
		`response_?format|response mime type|json[_ ]?(schema|mode|object)|structured (output|response)|guided_|grammar|constrained`,
	),
	featureToolSchema: regexp.MustCompile(`\btools?\b|function`),
}

// thisSchema matches a refusal of one schema, not of all schemas.
var thisSchema = regexp.MustCompile(`invalid[_ ](json[_ ])?schema|schema is (not valid|invalid)`)

var (
	// oneTool matches a refusal of one tool of the request.
	oneTool = regexp.MustCompile(`mcp__|\btools?[.\[]\d|function_?declarations|input_schema|schema for function`)
	// toolGrammar matches a refusal of a schema; without a response schema, a refusal of a tool's
	// schema.
	toolGrammar = regexp.MustCompile(`grammar|schema|sampler`)
)

// features returns the optional features that a request for a prompt uses.
func features(p domain.Prompt, without map[feature]bool) map[feature]bool {
	has := map[feature]bool{featureUsage: true}
	has[featureReasoning] = slices.ContainsFunc(p.Messages, func(m domain.PromptMessage) bool { return m.Reasoning != "" })
	has[featureMembers] = slices.ContainsFunc(p.Messages, domain.PromptMessage.HasServerMembers)
	has[featureSchema] = len(p.Schema) > 0
	has[featureToolSchema] = len(p.Schema) > 0 && len(p.Tools) > 0

	if without[featureSchema] || without[featureToolSchema] && has[featureToolSchema] {
		has[featureSchema], has[featureToolSchema] = false, false
	}

	maps.DeleteFunc(has, func(f feature, sent bool) bool { return !sent || without[f] })

	return has
}

// suspect returns the feature for which a server may have refused a request; named: the
// error names it. Empty: none.
func suspect(err error, words string, has map[feature]bool) (f feature, named bool) {
	fault, is := errors.AsType[*domain.ModelError](err)
	if !is {
		return "", false
	}

	refused := fault.Fault == domain.FaultRefused &&
		(fault.Status == http.StatusBadRequest || fault.Status == http.StatusUnprocessableEntity)
	broken := fault.Status == http.StatusInternalServerError || fault.Status == http.StatusNotImplemented

	switch names := func(f feature) bool { return has[f] && namedFeatures[f].MatchString(words) }; {
	case oneTool.MatchString(words): // the caller removes it
		return "", false
	case refused && names(featureUsage):
		return featureUsage, true
	case (refused || broken) && names(featureSchema):
		if names(featureToolSchema) {
			return featureToolSchema, true
		}

		return featureSchema, true
	case refused && names(featureReasoning):
		return featureReasoning, true
	case !has[featureSchema] && toolGrammar.MatchString(words):
		return "", false
	case refused && names(featureMembers):
		return featureMembers, true
	case refused && has[featureReasoning]: // the server does not name the unknown field
		return featureReasoning, false
	case refused && has[featureMembers]:
		return featureMembers, false
	case (refused || broken) && has[featureToolSchema]:
		return featureToolSchema, false
	}

	return "", false
}
