package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// specifiedBounds is what the specification says of the fields that operations
// take, in the words of describe: TestEveryBound believes the document, which has
// to be believed for this.
var specifiedBounds = map[string]string{
	"POST /api/sessions body.intent":              "string 0..100000 or null",
	"POST /api/sessions body.solution_id":         "string 0..256 or null",
	"POST /api/sessions body.biz_role_id":         "string 0..256 or null",
	"POST /api/sessions body.template_id":         "string 0..256 or null",
	"POST /api/sessions body.primary_skill_id":    "string 0..256 or null",
	"POST /api/sessions body.model":               "string 0..256 or null",
	"POST /api/sessions body.software_factory_id": "integer -9007199254740991..9007199254740991 or null",
	"POST /api/sessions body.memory_enabled":      "boolean or null",
	"POST /api/sessions body.is_persistent":       "boolean or null =false",
	"POST /api/sessions body.env":                 "object or null",
	"POST /api/sessions body.workspace_id":        "string 0..256 or null",
	"POST /api/sessions body.disable_tools":       "array 0..1000 or null",

	"GET /api/sessions query.template_id_prefix":                  "string 0..256",
	"GET /api/sessions query.q":                                   "string 0..1000",
	"GET /api/sessions query.limit":                               "integer 1.. =20",
	"GET /api/sessions query.offset":                              "integer 0.. =0",
	"PATCH /api/sessions/{session_id} body.intent":                "string 0..100000 or null",
	"PUT /api/sessions/{session_id}/env body.env":                 "required object",
	"PATCH /api/sessions/{session_id}/pin body.pinned":            "required boolean",
	"PATCH /api/sessions/{session_id}/sharing body.shared":        "required boolean",
	"PATCH /api/sessions/{session_id}/memory body.memory_enabled": "required boolean",

	"POST /api/sessions/{session_id}/rewind body.checkpoint_id":        "required string 1..128",
	"POST /api/sessions/{session_id}/checkout body.checkpoint_id":      "required string 1..128",
	"POST /api/sessions/{session_id}/checkout body.position":           "string of before,turn_end =before",
	"POST /api/sessions/{session_id}/switch-branch body.checkpoint_id": "required string 1..128",
	"POST /api/sessions/{session_id}/replay body.speed":                "required integer of 1,2,5",
	"PATCH /api/sessions/{session_id}/replay body.speed":               "integer of 1,2,5 or null",
	"PATCH /api/sessions/{session_id}/replay body.status":              "string of autonomous or null",

	"PUT /api/sessions/{session_id}/files/{file_path} body.content":          "required string",
	"POST /api/sessions/{session_id}/files/{file_path}/rename body.new_name": "required string 1..255",
	"POST /api/sessions/{session_id}/share-file body.source_path":            "required string 1..4096",
	"POST /api/sessions/{session_id}/share-file body.link_name":              "string 0..255 or null",
	"POST /api/sessions/{session_id}/share-file body.share_folder":           "string 0..4096 or null",
	"POST /api/sessions/{session_id}/share body.ttl_seconds":                 "integer 1..7776000 or null",

	"POST /api/sessions/tokenize/prompt body.prompt":                       "required string",
	"POST /api/sessions/tokenize/prompt body.model":                        "string 0..256 or null",
	"POST /api/sessions/tokenize/messages body.messages":                   "required array 0..10000",
	"POST /api/sessions/tokenize/messages body.add_generation_prompt":      "boolean or null",
	"POST /api/sessions/tokenize/messages body.enable_thinking":            "boolean or null",
	"POST /api/sessions/tokenize/messages body.tools":                      "array 0..10000 or null",
	"GET /api/sessions/{session_id}/background-tasks/{task_id} query.tail": "integer 1.. =100",
	"POST /api/sessions/{session_id}/skills:upload body.name":              "required string 1..64",
	"POST /api/sessions/{session_id}/skills:upload body.files":             "required array 1..500",
	"POST /api/sessions/{session_id}/upset_extra_info body.extra":          "required object",
	"GET /api/sessions/{session_id}/messages query.after_sequence":         "integer -1.. =-1",
	"GET /api/sessions/{session_id}/messages query.limit":                  "integer 1..",
	"GET /api/sessions/{session_id}/messages query.newest":                 "boolean",
	"POST /api/sessions/{session_id}/chat body.mode":                       "string of planning,executing or null",
	"POST /api/sessions/{session_id}/chat body.delivery":                   "string of enqueue,steer,interrupt,reject or null =enqueue",

	"GET /api/skills/search query.q":     "required string 1..1000",
	"GET /api/skills/search query.limit": "integer 1..50 =10",

	"POST /api/prod_agents body.name":                   "required string 1..128",
	"POST /api/prod_agents body.icon":                   "string 0..64 or null",
	"POST /api/prod_agents body.agent_id":               "string 0..128 or null",
	"POST /api/prod_agents body.solution_id":            "required string 1..128",
	"POST /api/prod_agents body.biz_role_id":            "required string 1..128",
	"POST /api/prod_agents body.agent_template":         "string 0..200000 or null",
	"POST /api/prod_agents body.skills":                 "array 0..200 or null",
	"POST /api/prod_agents body.skills_data":            "object or null",
	"POST /api/prod_agents body.init_script":            "string 0..200000 or null",
	"POST /api/prod_agents body.layout_type":            "string 0..64 or null",
	"POST /api/prod_agents body.preview_urls":           "array 0..200 or null",
	"POST /api/prod_agents body.preview_urls[0].name":   "required string 1..128",
	"POST /api/prod_agents body.preview_urls[0].url":    "required string 1..2000",
	"POST /api/prod_agents body.runtime_provider":       "string 0..256 or null",
	"POST /api/prod_agents body.instructions":           "string 0..200000 or null",
	"POST /api/prod_agents body.visibility":             "string 0..32 or null",
	"PUT /api/prod_agents/{record_id} body.visibility":  "string 0..32 or null",
	"POST /api/agent-instances body.visibility":         "string 0..32 or null",
	"PUT /api/prod_agents/{record_id} body.name":        "required string 1..128",
	"PUT /api/prod_agents/{record_id} body.solution_id": "required string 1..128",
	"PUT /api/prod_agents/{record_id} body.biz_role_id": "required string 1..128",
	"POST /api/agent-instances body.name":               "required string 1..128",
	"POST /api/agent-instances body.runtime_id":         "required string 1..128",
	"POST /api/agent-instances body.instructions":       "string 0..200000 or null",
	"GET /api/agent-instances query.include_archived":   "boolean =false",

	"POST /api/scheduled-tasks body.title":              "required string 1..200",
	"POST /api/scheduled-tasks body.cron":               "required string 1..100",
	"POST /api/scheduled-tasks body.timezone":           "string 1..100 or null",
	"POST /api/scheduled-tasks body.enabled":            "boolean or null",
	"POST /api/scheduled-tasks body.skip_confirmations": "boolean or null",
	"POST /api/scheduled-tasks body.model":              "string 0..200 or null",
	"PATCH /api/scheduled-tasks/{id} body.title":        "string 1..200 or null",
	"PATCH /api/scheduled-tasks/{id} body.cron":         "string 1..100 or null",
	"PATCH /api/scheduled-tasks/{id} body.timezone":     "string 1..100 or null",
	"PATCH /api/scheduled-tasks/{id} body.model":        "string 0..200 or null",

	"POST /api/prod_workspaces body.name":                                        "required string 1..128",
	"POST /api/prod_workspaces body.description":                                 "string 0..1000 or null",
	"PUT /api/prod_workspaces/{workspace_id}/assistant-session body.biz_role_id": "required string 1..128",
	"PUT /api/prod_workspaces/{workspace_id}/assistant-session body.session_id":  "required string 1..128",
	"POST /api/prod_workspaces/{workspace_id}/issues body.title":                 "required string 1..500",
	"GET /api/prod_workspaces/{workspace_id}/issues/query query.limit":           "integer 1..100 =50",

	"POST /api/memories body.content":      "required string 1..500",
	"POST /api/memories body.type":         "string of feedback,experience or null =feedback",
	"POST /api/memories body.skill_name":   "string 0..255 or null",
	"POST /api/memories body.record_type":  "string of memory,skill_comment or null",
	"POST /api/memories body.scope":        "string 0..255 or null",
	"POST /api/memories body.owner":        "string 0..255 or null",
	"POST /api/memories body.topic":        "string 0..255 or null",
	"POST /api/memories body.external_id":  "string 0..255 or null",
	"POST /api/memories body.write_reason": "string 1..500 or null",

	"PUT /api/memories/{id} body.content":      "string 1..500",
	"PUT /api/memories/{id} body.type":         "string of feedback,experience",
	"PUT /api/memories/{id} body.skill_name":   "string 0..255 or null",
	"PUT /api/memories/{id} body.record_type":  "string of memory,skill_comment or null",
	"PUT /api/memories/{id} body.scope":        "string 0..255 or null",
	"PUT /api/memories/{id} body.owner":        "string 0..255 or null",
	"PUT /api/memories/{id} body.topic":        "string 0..255 or null",
	"PUT /api/memories/{id} body.external_id":  "string 0..255 or null",
	"PUT /api/memories/{id} body.write_reason": "string 1..500 or null",

	"PATCH /api/memories/{id} body.disabled": "required boolean",
	"GET /api/memories query.offset":         "integer 0.. =0",
	"GET /api/memories query.limit":          "integer 1..100 =20",
	"GET /api/memories query.status":         "string of active,disabled,superseded",
	"POST /api/memories/batch body.action":   "required string of delete,disable,enable",
	"POST /api/memories/batch body.ids":      "required array 1..100",

	"POST /api/user/api-keys/ body.name":      "required string 1..50",
	"PATCH /api/user/api-keys/{id} body.name": "required string 1..50",

	"PUT /api/env/buckets/{bucket} body.env":                        "required object",
	"PUT /api/user/preferences/{key} body.value":                    "required string 0..100000",
	"POST /api/admin/admins body.user_id":                           "required string 1..128",
	"GET /api/admin/users/{user_id}/biz-roles query.solution_id":    "required string 1..128",
	"PUT /api/admin/users/{user_id}/biz-roles body.biz_role_ids":    "required array 0..1000",
	"POST /api/admin/users/token-state body.users":                  "required array 0..1000",
	"POST /api/admin/users/token-state body.users[0].email":         "required string 0..320",
	"POST /api/admin/users/token-state body.users[0].name":          "required string 0..256",
	"POST /api/admin/users/token-state body.users[0].sub":           "required string 1..256",
	"POST /api/admin/users body.username":                           "required string 1..128",
	"POST /api/apps body.session_id":                                "required string 1..128",
	"POST /api/apps body.working_dir":                               "string 0..4096",
	"GET /api/registry/resources query.limit":                       "integer 1.. =200",
	"GET /api/registry/resources query.offset":                      "integer 0.. =0",
	"GET /api/registry/scenarios query.limit":                       "integer 1..2000 =500",
	"GET /api/registry/templates/{type_key}/{subtype} query.driver": "string 0..255",
}

// describe says in a line what a value may be.
func (s *shape) describe(required bool) string {
	between := func(low, high any) string { return fmt.Sprintf(" %v..%v", low, high) }
	text := s.kind()
	number := func(f *float64) any {
		if f == nil {
			return ""
		}

		return fmt.Sprintf("%.0f", *f)
	}
	size := func(low, high *int) {
		if high != nil || low != nil {
			most := any("")
			if high != nil {
				most = *high
			}

			text += between(at(low), most)
		}
	}

	switch {
	case len(s.Enum) > 0:
		words := []string{}

		for _, v := range s.Enum {
			if v != nil { // required by the type already
				words = append(words, fmt.Sprint(v))
			}
		}

		text += " of " + strings.Join(words, ",")
	case s.Minimum != nil || s.Maximum != nil:
		text += between(number(s.Minimum), number(s.Maximum))
	}

	size(s.MinLength, s.MaxLength)
	size(s.MinItems, s.MaxItems)

	if required {
		text = "required " + text
	}

	if s.nullable() {
		text += " or null"
	}

	if s.Default != nil {
		text += fmt.Sprintf(" =%v", s.Default)
	}

	return text
}

func TestBoundsAreThoseOfTheSpecification(t *testing.T) {
	t.Parallel()
	d := newWorld(t).bounds()
	documented := map[string]string{}

	var fields func(name string, s *shape, required bool)

	fields = func(name string, s *shape, required bool) {
		s = d.of(s)

		documented[name] = s.describe(required)
		for field, inner := range s.Properties {
			needed := false
			for _, r := range s.Required {
				needed = needed || r == field
			}

			fields(name+"."+field, inner, needed)
		}

		if s.Items != nil {
			fields(name+"[0]", s.Items, false)
		}
	}

	for path, item := range d.Paths {
		for method, op := range item {
			name := strings.ToUpper(method) + " " + path + " "

			for _, p := range op.Parameters {
				if p.Schema != nil {
					fields(name+p.In+"."+p.Name, p.Schema, p.Required)
				}
			}

			if op.RequestBody != nil {
				if form, ok := op.RequestBody.Content["application/json"]; ok {
					fields(name+"body", form.Schema, op.RequestBody.Required)
				}
			}
		}
	}

	for field, says := range specifiedBounds {
		require.Contains(t, documented, field)

		if documented[field] != says {
			t.Errorf("%s is %q, specified is %q", field, documented[field], says)
		}
	}
}
