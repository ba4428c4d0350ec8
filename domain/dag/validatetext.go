package dag

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"everloop/domain"
)

// assigned matches an assignment of a credential to a name.
var assigned = regexp.MustCompile(`(?i)\b(?:password|passwd|secret|api[_-]?key|access[_-]?token)\b["']?\s*[:=]\s*["']?[^\s"'{}<>$]{8,}`)

// checkTexts checks all texts of a node that can contain references or secrets.
func (v *validator) checkTexts(n *Node, at string) {
	c := n.config()
	v.checkText(c.Prompt, n, at+".config.prompt")
	v.checkText(c.Condition, n, at+".config.condition")
	v.checkSecrets(c.Code, n, at+".config.code") // braces are part of many languages

	for _, name := range slices.Sorted(maps.Keys(c.Arguments)) {
		v.checkValue(c.Arguments[name], n, at+".config.arguments."+name)
	}

	for _, name := range slices.Sorted(maps.Keys(n.Inputs)) {
		v.checkValue(n.Inputs[name], n, at+".inputs."+name)
	}

	if n.Type == Map && n.Inputs["items"] != nil {
		v.checkItems(n, at+".inputs.items")
	}
}

func (v *validator) checkValue(raw json.RawMessage, n *Node, path string) {
	var value any
	if json.Unmarshal(raw, &value) == nil {
		v.walkTexts(value, n, path)
	}
}

func (v *validator) walkTexts(value any, n *Node, path string) {
	switch value := value.(type) {
	case string:
		v.checkText(value, n, path)
	case []any:
		for i, inner := range value {
			v.walkTexts(inner, n, fmt.Sprintf("%s[%d]", path, i))
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			v.walkTexts(value[name], n, path+"."+name)
		}
	}
}

func (v *validator) checkText(text string, n *Node, path string) {
	v.checkSecrets(text, n, path)
	finding := domain.Finding{Code: CodeUnknownReference, NodeID: n.ID, Path: path}

	v.checkReferences(text, n, false, finding)
}

// checkReferences checks each distinct reference of a text, and reports whether the text could
// be parsed.
func (v *validator) checkReferences(text string, n *Node, edge bool, finding domain.Finding) bool {
	template, faults := parseTemplate(text)
	for _, fault := range faults {
		finding.Message = fault.Error()
		v.fail(finding)
	}

	checked := map[string]bool{}

	for _, r := range template.References() {
		if name := r.String(); !checked[name] {
			checked[name] = true

			v.checkReference(r, n, edge, finding)
		}
	}

	return len(faults) == 0
}

func (v *validator) checkSecrets(text string, n *Node, path string) {
	finding := domain.Finding{Code: CodeSecretInPrompt, NodeID: n.ID, Path: path}

	switch {
	case domain.SecretShapes.MatchString(text):
		finding.Message = "the text holds a credential: keep it in an environment bucket"
		v.fail(finding)
	case assigned.MatchString(text):
		finding.Message = "the text may hold a credential: keep it in an environment bucket"
		v.warn(finding)
	}
}
