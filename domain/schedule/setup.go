package schedule

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"everloop/domain"
)

// Bounds of a task's setup.
const (
	MaxInputs     = 50
	MaxInputValue = 10_000 // characters
)

// Setup is the configuration of a task's sessions, and the variables of its prompt.
type Setup struct {
	SolutionID    *string            `json:"solution_id" nullable:"true" doc:"The solution of its sessions; null: none."`
	BizRoleID     *string            `json:"biz_role_id" nullable:"true" doc:"The role of the solution; null: none."`
	AgentID       *string            `json:"agent_id" nullable:"true" doc:"The production agent that its sessions are made of; null: none." example:"release-notes"`
	Mode          *domain.Mode       `json:"mode" nullable:"true" enum:"executing,planning" doc:"How the agent works; null: executing."`
	Skills        []string           `json:"skills" nullable:"true" doc:"Skills that its sessions are offered first: the id of a list, org/name, or name." example:"[\"release-notes\"]"`
	EnvBuckets    []string           `json:"env_buckets" nullable:"true" doc:"Environment buckets that reach its tools besides default and that of its solution." example:"[\"reports\"]"`
	Permissions   []PermissionRule   `json:"permissions" nullable:"true" doc:"The first rule that matches a tool call decides; no rule: it is allowed."`
	Network       domain.NetworkMode `json:"network,omitempty" enum:"none,rules,public" doc:"Narrows the network of its commands; left out: as the service is configured."`
	MemoryEnabled bool               `json:"memory_enabled" doc:"Whether its sessions use memories."`
	Inputs        map[string]string  `json:"inputs" nullable:"true" doc:"Values that the prompt uses as {{input.NAME}}." example:"{\"product\": \"Atlas\"}"`
}

// PermissionRule decides about tool calls of the sessions of a task.
type PermissionRule struct {
	Tool     string                    `json:"tool" minLength:"1" maxLength:"256" doc:"A tool's name, * for any text. Network: the rule is one of a domain."`
	Pattern  string                    `json:"pattern,omitempty" maxLength:"2000" doc:"What the call must look like, * for any text; empty: every call."`
	Argument string                    `json:"argument,omitempty" maxLength:"200" doc:"The only argument that the pattern is compared with; left out: what the call is about."`
	Decision domain.PermissionDecision `json:"decision" enum:"allow,ask,deny" doc:"The decision about the call."`
}

// Rules returns the permission rules of the task's sessions.
func (s Setup) Rules() (rules []domain.PermissionRule) {
	for _, r := range s.Permissions {
		rules = append(rules, domain.PermissionRule{Tool: r.Tool, Pattern: r.Pattern, Argument: r.Argument, Decision: r.Decision})
	}

	return rules
}

// Same reports whether sessions of one setup can be used for the other. Inputs are not
// compared: they belong to the message.
func (s Setup) Same(o Setup) bool {
	return same(s.SolutionID, o.SolutionID) && same(s.BizRoleID, o.BizRoleID) && same(s.AgentID, o.AgentID) && same(s.Mode, o.Mode) &&
		slices.Equal(s.Skills, o.Skills) && slices.Equal(s.EnvBuckets, o.EnvBuckets) && slices.Equal(s.Permissions, o.Permissions) &&
		s.Network == o.Network && s.MemoryEnabled == o.MemoryEnabled
}

func same[T comparable](a, b *T) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// Beside returns a field that a production agent defines, and that a task with an agent can
// therefore not set; empty: there is none.
func (s Setup) Beside() string {
	switch {
	case s.SolutionID != nil:
		return "solution_id"
	case s.BizRoleID != nil:
		return "biz_role_id"
	case s.Mode != nil:
		return "mode"
	case len(s.Skills) > 0:
		return "skills"
	case len(s.EnvBuckets) > 0:
		return "env_buckets"
	case len(s.Permissions) > 0:
		return "permissions"
	case s.Network != "":
		return "network"
	case s.MemoryEnabled:
		return "memory_enabled"
	default:
		return ""
	}
}

// Tick contains the variables of a prompt that describe its tick.
type Tick struct {
	Time     time.Time
	Previous time.Time // zero: there was none
}

var (
	inputName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
	references = regexp.MustCompile(`\{\{\s*((?:tick|task|input)\.[^{}\s]*)\s*\}\}`)
)

// CheckInputs checks the names and sizes of inputs, and that a prompt refers only to existing
// variables. Text in double braces with another start stays unchanged.
func CheckInputs(prompt string, inputs map[string]string) error {
	if len(inputs) > MaxInputs {
		return domain.Invalidf("body.inputs", "must have at most %d values", MaxInputs)
	}

	for name, value := range inputs {
		if !inputName.MatchString(name) {
			return domain.Invalidf("body.inputs", "names must be letters, digits and _, such as product_name")
		}

		if len([]rune(value)) > MaxInputValue {
			return domain.Invalidf("body.inputs."+name, "must have at most %d characters", MaxInputValue)
		}
	}

	for _, found := range references.FindAllStringSubmatch(prompt, -1) {
		name, isInput := strings.CutPrefix(found[1], "input.")

		_, known := inputs[name]
		if !isInput {
			known = slices.Contains([]string{"tick.time", "tick.previous", "task.title"}, found[1])
		}

		if !known {
			return domain.Invalidf("body.prompt", "{{%s}} is unknown: use tick.time, tick.previous, task.title or input.NAME of inputs",
				domain.CleanText(found[1]))
		}
	}

	return nil
}

// Message returns the prompt of a task for one tick. Times are in the zone of the task.
func (s TaskSpec) Message(tick Tick) string {
	zone, err := time.LoadLocation(s.Timezone)
	if err != nil {
		zone = time.UTC
	}

	values := map[string]string{"tick.time": tick.Time.In(zone).Format(time.RFC3339), "tick.previous": "", "task.title": s.Title}
	if !tick.Previous.IsZero() {
		values["tick.previous"] = tick.Previous.In(zone).Format(time.RFC3339)
	}

	for name, value := range s.Inputs {
		values["input."+name] = value
	}

	return references.ReplaceAllStringFunc(s.Prompt, func(reference string) string {
		value, known := values[references.FindStringSubmatch(reference)[1]]
		if !known {
			return reference
		}

		return value
	})
}
