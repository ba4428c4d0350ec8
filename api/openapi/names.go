package openapi

import (
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// schemaNames are the names of schemas that differ from those of their types. A type is
// named within its package, as annotation.Target; the schemas of a document have one
// space of names.
var schemaNames = map[string]string{
	"domain/annotation.Range":          "AnnotationRange",
	"domain/annotation.Target":         "AnnotationTarget",
	"domain/board.Workspace":           "ProdWorkspace",
	"domain/history.Node":              "HistoryNode",
	"domain/operator.Job":              "OperatorJob",
	"domain/operator.Run":              "OperatorRun",
	"domain/prodagent.Agent":           "ProdAgent",
	"domain/prodagent.Instance":        "AgentInstance",
	"domain/prodagent.InstanceChange":  "AgentInstanceChange",
	"domain/prodagent.Runtime":         "AgentRuntime",
	"domain/prodagent.Summary":         "ProdAgentSummary",
	"domain/production.Solution":       "ProdSolution",
	"domain/replay.Preview":            "ReplayPreview",
	"domain/production.SolutionChange": "ProdSolutionChange",
	"domain/schedule.Run":              "ScheduledRun",
	"domain/schedule.Task":             "ScheduledTask",
	"domain/skill.Detail":              "SkillDetail",
	"domain/skill.File":                "SkillFile",
	"domain/skill.Failure":             "SkillFailure",
	"domain/skill.Hit":                 "SkillHit",
	"domain/skill.Installed":           "InstalledSkill",
	"domain/skill.Snapshot":            "SkillSnapshot",
	"domain/skill.Stat":                "SkillStat",
	"domain/webhook.Attempt":           "WebhookAttempt",
	"domain/webhook.Delivery":          "WebhookDelivery",
}

// typeName names a type for a document, the arguments of a generic one behind it:
// Items[annotation.Target] is ItemsAnnotationTarget. A type without a name has the hint.
func typeName(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}

	if t.Name() == "" {
		return huma.DefaultSchemaNamer(t, hint)
	}

	full := t.PkgPath() + "." + strings.ReplaceAll(t.Name(), "[]", "List[")

	var b strings.Builder

	for part := range strings.FieldsFuncSeq(full, func(r rune) bool { return strings.ContainsRune("[]*,", r) }) {
		name, found := schemaNames[strings.TrimPrefix(part, "everloop/")]
		if !found {
			name = part[strings.LastIndexByte(part, '.')+1:]
		}

		b.WriteString(strings.ToUpper(name[:1]) + name[1:])
	}

	return b.String()
}
