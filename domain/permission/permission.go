// Package permission judges tool calls by permission rules. It judges the parsed call: the
// commands of a shell script, the target file of a path, every argument of other tools. It does
// not depend on sessions or stores. The rules guide a cooperative agent; the sandbox confines a
// hostile one.
package permission

import (
	"encoding/json"
	"slices"
	"strings"

	"everloop/domain"
)

// Call is a tool call to judge. Resolve returns the path below the workspace that a workspace
// path resolves to after following links; nil: links are not followed.
type Call struct {
	Tool      string
	Arguments json.RawMessage
	Resolve   func(path string) string
}

// Decide returns the decision of the first rule that matches the call; a call that no
// rule matches is allowed. A call can have several subjects, such as the commands of a
// script: the strictest decision about them applies.
func Decide(rules []domain.PermissionRule, call Call) domain.PermissionDecision {
	if len(rules) == 0 {
		return domain.PermissionAllow
	}

	rules = slices.DeleteFunc(slices.Clone(rules), func(r domain.PermissionRule) bool { return !matchesGlob(r.Tool, call.Tool) })

	if len(rules) == 0 {
		return domain.PermissionAllow
	}

	// A rule with the digest of this call decides about all subjects: later rules do not apply,
	// and without a match the call is allowed.
	if exact := slices.IndexFunc(rules, func(r domain.PermissionRule) bool { return r.Digest != "" }); exact >= 0 {
		rules = untilExact(rules, Digest(call.Tool, call.Arguments))
	}

	decision := domain.PermissionAllow

	for _, s := range subjects(rules, call) {
		decided, _ := s.decide(rules)
		decision = stricter(decision, decided)
	}

	return decision
}

// untilExact returns the rules before the first allow rule with the digest, without rules
// about other calls. An ask or deny rule with the digest becomes a rule for every call.
func untilExact(rules []domain.PermissionRule, digest string) []domain.PermissionRule {
	var kept []domain.PermissionRule

	for _, r := range rules {
		switch {
		case r.Digest == "":
			kept = append(kept, r)
		case r.Digest != digest:
		case r.Decision == domain.PermissionAllow:
			return kept
		default:
			kept = append(kept, domain.PermissionRule{Tool: r.Tool, Decision: r.Decision})
		}
	}

	return kept
}

func stricter(a, b domain.PermissionDecision) domain.PermissionDecision {
	if a == domain.PermissionDeny || b == domain.PermissionDeny {
		return domain.PermissionDeny
	}

	if a == domain.PermissionAsk || b == domain.PermissionAsk {
		return domain.PermissionAsk
	}

	return domain.PermissionAllow
}

// subject is one unit of a call that rules judge.
type subject struct {
	texts    []string          // a deny or ask rule matches if its pattern matches any of them
	possible []string          // templates: a deny or ask rule asks if its pattern can match any of them
	allowed  [][]string        // an allow rule matches if its pattern matches one text of each
	members  map[string]string // arguments by name, for rules that name one
	rules    int               // only the first n rules judge it; 0: all
	script   bool              // only patterns with operators of the shell judge it
	guess    bool              // possibly not a command: only deny and ask rules with a pattern judge it
}

// decide returns the decision of the first matching rule and its index. A possible match asks,
// unless a later rule denies.
func (s subject) decide(rules []domain.PermissionRule) (decision domain.PermissionDecision, rule int) {
	decision = domain.PermissionAllow

	for i, r := range rules {
		if s.rules > 0 && i >= s.rules {
			break
		}

		if s.matches(r) {
			return stricter(decision, r.Decision), i
		}

		if s.canMatch(r) {
			decision = domain.PermissionAsk
		}
	}

	return decision, len(rules)
}

func (s subject) matches(r domain.PermissionRule) bool {
	switch {
	case r.Argument != "":
		value, present := s.members[r.Argument]
		return present && (r.Pattern == "" || matchesSubject(r.Pattern, value))
	case strings.Trim(r.Pattern, "*") == "":
		return !s.guess
	case r.Decision == domain.PermissionAllow:
		return s.allows(r.Pattern)
	case s.script && !strings.ContainsAny(r.Pattern, operators):
		return false
	default:
		return slices.ContainsFunc(s.texts, func(text string) bool { return matchesSubject(r.Pattern, text) })
	}
}

func (s subject) canMatch(r domain.PermissionRule) bool {
	return r.Decision != domain.PermissionAllow && r.Argument == "" &&
		slices.ContainsFunc(s.possible, func(template string) bool { return intersects(r.Pattern, template) })
}

func (s subject) allows(pattern string) bool {
	matches := func(text string) bool { return matchesSubject(pattern, text) }

	for _, spellings := range s.allowed {
		if !slices.ContainsFunc(spellings, matches) {
			return false
		}
	}

	return len(s.allowed) > 0
}

func subjects(rules []domain.PermissionRule, call Call) []subject {
	args := parseArguments(call.Arguments)

	switch {
	case call.Tool == "Bash":
		return commandSubjects(rules, args.script())
	case pathArgument[call.Tool] != "":
		return []subject{pathSubject(call, args)}
	default:
		return []subject{argumentSubject(call, args)}
	}
}
