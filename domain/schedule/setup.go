package schedule

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"everloop/domain"
	"everloop/domain/target"
)

// Bounds of a task's setup.
const (
	MaxInputs     = 50
	MaxInputValue = 10_000 // characters
)

// Setup is what a task starts: its target, the configuration of its sessions, and the variables of its texts.
type Setup struct {
	Target        target.Target      `json:"target" doc:"What each run starts. Of prompt and agent, prompt and agent_id are the fields of the task."`
	SolutionID    *string            `json:"solution_id" nullable:"true" doc:"The solution of its sessions; null: none."`
	BizRoleID     *string            `json:"biz_role_id" nullable:"true" doc:"The role of the solution; null: none."`
	AgentID       *string            `json:"agent_id" nullable:"true" doc:"The production agent that its sessions are made of; null: none." example:"release-notes"`
	Mode          *domain.Mode       `json:"mode" nullable:"true" enum:"executing,planning" doc:"How the agent works; null: executing."`
	Skills        []string           `json:"skills" nullable:"true" doc:"Skills that its sessions are offered first: the id of a list, org/name, or name." example:"[\"release-notes\"]"`
	EnvBuckets    []string           `json:"env_buckets" nullable:"true" doc:"Environment buckets that reach its tools besides default and that of its solution." example:"[\"reports\"]"`
	Permissions   []PermissionRule   `json:"permissions" nullable:"true" doc:"The first rule that matches a tool call decides; no rule: it is allowed."`
	Network       domain.NetworkMode `json:"network,omitempty" enum:"none,rules,public" doc:"Narrows the network of its commands; left out: as the service is configured."`
	MemoryEnabled bool               `json:"memory_enabled" doc:"Whether its sessions use memories."`
	Inputs        map[string]string  `json:"inputs" nullable:"true" doc:"Values that the texts of the task and its target use as {{input.NAME}}. The inputs of a DAG run, if its target has none." example:"{\"product\": \"Atlas\"}"`
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

var inputName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// CheckInputs checks the names and sizes of inputs, and that the texts of a task refer only to
// existing variables. Text in double braces with another start stays unchanged.
func (s TaskSpec) CheckInputs() error {
	inputs := s.Inputs
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

	err := s.checkReferences("body.prompt", s.Prompt)
	s.Target.Map(func(field, text string) string {
		if err == nil {
			err = s.checkReferences("body.target."+field, text)
		}

		return text
	})

	return err
}

func (s TaskSpec) checkReferences(at, text string) error {
	for _, name := range target.References(text) {
		input, isInput := strings.CutPrefix(name, "input.")

		_, known := s.Inputs[input]
		if !isInput {
			known = slices.Contains([]string{"tick.time", "tick.previous", "task.title"}, name)
		}

		if !known && (isInput || strings.HasPrefix(name, "tick.") || strings.HasPrefix(name, "task.")) {
			return domain.Invalidf(at, "{{%s}} is unknown: use tick.time, tick.previous, task.title or input.NAME of inputs",
				domain.CleanText(name))
		}
	}

	return nil
}

// Values returns the values of references in the texts of a task for one tick. Times are in the
// zone of the task.
func (s TaskSpec) Values(tick Tick) target.Values {
	zone, err := time.LoadLocation(s.Timezone)
	if err != nil {
		zone = time.UTC
	}

	values := target.Values{"tick.time": tick.Time.In(zone).Format(time.RFC3339), "tick.previous": "", "task.title": s.Title}
	if !tick.Previous.IsZero() {
		values["tick.previous"] = tick.Previous.In(zone).Format(time.RFC3339)
	}

	for name, value := range s.Inputs {
		values["input."+name] = value
	}

	return values
}

// Retarget sets what the task starts. The configuration that another kind of target had, and that
// the new kind does not use, is removed.
func (s *TaskSpec) Retarget(t target.Target) {
	if t.Kind != s.Target.Kind && s.Target.Kind != "" {
		s.Setup = Setup{Inputs: s.Inputs}
		if !t.Kind.Chats() {
			s.Model, s.Budget, s.QuestionPolicy, s.OutputSchema, s.Files, s.Commands = nil, nil, nil, nil, nil, nil
			s.Persistent, s.SkipConfirmations = false, false
		}
	}

	s.Target, s.AgentID = t, nil
	if t.AgentID != "" {
		s.AgentID = &t.AgentID
	}

	if t.Prompt != "" {
		s.Prompt = t.Prompt
	}

	if t.Kind.Chats() && len(t.Inputs) > 0 {
		s.Inputs = map[string]string{}
		for name, value := range t.Inputs {
			s.Inputs[name], _ = value.(string)
		}
	}
}

// Settle makes the target agree with the prompt and the agent of the task, which are part of it.
func (s *TaskSpec) Settle() {
	switch {
	case s.Target.Kind != "" && !s.Target.Kind.Chats():
		return
	case s.AgentID != nil:
		s.Target = target.Target{Kind: target.Agent, AgentID: *s.AgentID, Prompt: s.Prompt}
	default:
		s.Target = target.Target{Kind: target.Prompt, Prompt: s.Prompt}
	}
}

// Start returns the target of one run, with the defaults that the task has for it.
func (s TaskSpec) Start() target.Target {
	started := s.Target
	started.Prompt = s.Prompt

	if started.Kind == target.DAG && started.Inputs == nil {
		started.Inputs = map[string]any{}
		for name, value := range s.Inputs {
			started.Inputs[name] = value
		}
	}

	return started
}

// ChatField returns a field that configures chats, and that a task which starts none can therefore
// not set; empty: there is none.
func (s TaskSpec) ChatField() string {
	switch {
	case s.AgentID != nil:
		return "agent_id"
	case s.Model != nil:
		return "model"
	case s.Persistent:
		return "persistent"
	case s.SkipConfirmations:
		return "skip_confirmations"
	case s.QuestionPolicy != nil:
		return "question_policy"
	case s.Budget != nil:
		return "budget"
	case len(s.OutputSchema) > 0:
		return "output_schema"
	case len(s.Files) > 0:
		return "files"
	case len(s.Commands) > 0:
		return "commands"
	default:
		return s.Beside()
	}
}
