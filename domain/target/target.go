// Package target describes what a scheduled task or a trigger starts: a prompt in a session, a
// production agent, the run of a DAG, or an issue. A trigger can also send a message to a session
// that exists.
package target

import (
	"regexp"
	"slices"
	"strings"

	"everloop/domain"
	"everloop/domain/board"
)

// Kind is what a target starts.
type Kind string

// The kinds of targets.
const (
	Prompt Kind = "prompt"
	Agent  Kind = "agent"
	DAG    Kind = "dag"
	Issue  Kind = "issue"
	// Session is a message in an existing session, of triggers only.
	Session Kind = "session"
)

// Target is what is started. The fields that its kind does not use are empty.
type Target struct {
	Kind Kind `json:"kind" enum:"prompt,agent,dag,issue,session" doc:"What is started: a message in a new session (of a task: also in its own), a production agent, the run of a DAG, an issue, or (triggers only) a message in an existing session."`

	Prompt  string         `json:"prompt,omitempty" maxLength:"100000" doc:"Of prompt, agent and session: the message." example:"Write the report of yesterday."`
	AgentID string         `json:"agent_id,omitempty" maxLength:"256" doc:"Of agent: the agent_id of the production agent." example:"release-notes"`
	Inputs  map[string]any `json:"inputs,omitempty" doc:"Of dag: the inputs of the run. Of prompt and agent: texts that the message uses as {{input.NAME}}."`

	SessionID domain.SessionID `json:"session_id,omitempty" maxLength:"128" doc:"Of session: the session that gets the message."`
	Delivery  domain.Delivery  `json:"delivery,omitempty" enum:"enqueue,steer" doc:"Of session: whether the message waits for the running chat (enqueue, the default) or joins it (steer)."`

	SolutionID string `json:"solution_id,omitempty" maxLength:"128" doc:"Of dag: the production solution of the DAG." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	Version    int    `json:"version,omitempty" minimum:"0" doc:"Of dag: the version to run; 0 or left out: the published one at that time."`

	WorkspaceID  string              `json:"workspace_id,omitempty" maxLength:"128" doc:"Of issue: the production workspace." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	Title        string              `json:"title,omitempty" maxLength:"500" doc:"Of issue: the title; left out: that of the task, or the name of the trigger." example:"Check the backup of {{tick.time}}"`
	Description  string              `json:"description,omitempty" maxLength:"20000" doc:"Of issue: the description; left out: the prompt of the task."`
	Priority     board.IssuePriority `json:"priority,omitempty" enum:"urgent,high,medium,low,none" doc:"Of issue: the priority; left out: none."`
	AssigneeType board.ActorType     `json:"assignee_type,omitempty" enum:"member,agent,squad" doc:"Of issue: the type of assignee_id; left out: any."`
	AssigneeID   string              `json:"assignee_id,omitempty" maxLength:"128" doc:"Of issue: the user, agent instance or squad; an agent or a squad starts a run. Left out: not assigned."`
	Project      string              `json:"project,omitempty" maxLength:"200" doc:"Of issue: the project." example:"search"`
	Labels       []string            `json:"labels,omitempty" maxItems:"50" minLength:"1" maxLength:"100" doc:"Of issue: the labels."`
}

// Started is what a target has started.
type Started struct {
	Kind        Kind             `json:"kind" enum:"prompt,agent,dag,issue" doc:"What was started."`
	SessionID   domain.SessionID `json:"session_id,omitempty" doc:"Of prompt and agent: the session."`
	ChatID      domain.ChatID    `json:"-"`
	SolutionID  string           `json:"solution_id,omitempty" doc:"Of dag: the production solution."`
	RunID       string           `json:"run_id,omitempty" doc:"Of dag: the run."`
	WorkspaceID string           `json:"workspace_id,omitempty" doc:"Of issue: the production workspace."`
	IssueID     string           `json:"issue_id,omitempty" doc:"Of issue: the issue."`
}

// Chats reports whether the kind starts a chat.
func (k Kind) Chats() bool { return k != DAG && k != Issue }

// Check rejects fields that the kind needs and the target does not have, and fields that it does
// not use. At is where the target is in the request, such as body.target.
func (t Target) Check(at string) error {
	for _, f := range t.fields() {
		switch {
		case f.needed && f.empty:
			return domain.Invalidf(at+"."+f.name, "must be set for a target of kind %s", t.Kind)
		case !f.empty && !slices.Contains(f.kinds, t.Kind):
			return domain.Invalidf(at+"."+f.name, "cannot be set for a target of kind %s", t.Kind)
		}
	}

	if t.AssigneeType != "" && t.AssigneeID == "" {
		return domain.Invalidf(at+".assignee_id", "must be set with assignee_type")
	}

	if !t.Kind.Chats() {
		return nil
	}

	for name, value := range t.Inputs {
		if _, text := value.(string); !text {
			return domain.Invalidf(at+".inputs."+name, "must be a text for a target of kind %s", t.Kind)
		}
	}

	return nil
}

// field is a field of a target with the kinds that use it.
type field struct {
	name   string
	empty  bool
	needed bool
	kinds  []Kind
}

func (t Target) fields() []field {
	chats, issue, session := []Kind{Prompt, Agent, Session}, []Kind{Issue}, []Kind{Session}

	return []field{
		{"kind", t.Kind == "", true, []Kind{Prompt, Agent, DAG, Issue, Session}},
		{"prompt", t.Prompt == "", false, chats},
		{"agent_id", t.AgentID == "", t.Kind == Agent, []Kind{Agent}},
		{"inputs", len(t.Inputs) == 0, false, []Kind{Prompt, Agent, DAG, Session}},
		{"session_id", t.SessionID == "", t.Kind == Session, session},
		{"delivery", t.Delivery == "", false, session},
		{"solution_id", t.SolutionID == "", t.Kind == DAG, []Kind{DAG}},
		{"version", t.Version == 0, false, []Kind{DAG}},
		{"workspace_id", t.WorkspaceID == "", t.Kind == Issue, issue},
		{"title", t.Title == "", false, issue},
		{"description", t.Description == "", false, issue},
		{"priority", t.Priority == "", false, issue},
		{"assignee_type", t.AssigneeType == "", false, issue},
		{"assignee_id", t.AssigneeID == "", false, issue},
		{"project", t.Project == "", false, issue},
		{"labels", len(t.Labels) == 0, false, issue},
	}
}

// Map returns the target with its texts replaced by change, which gets the field of each, such as
// title or inputs.name.
func (t Target) Map(change func(field, text string) string) Target {
	t.Prompt, t.Title = change("prompt", t.Prompt), change("title", t.Title)
	t.Description, t.Project = change("description", t.Description), change("project", t.Project)

	if t.Inputs != nil {
		t.Inputs, _ = mapValue("inputs", t.Inputs, change).(map[string]any)
	}

	if t.Labels != nil {
		t.Labels = slices.Clone(t.Labels)
		for i, label := range t.Labels {
			t.Labels[i] = change("labels", label)
		}
	}

	return t
}

// mapValue changes the texts of a JSON value. Names of fields stay as they are.
func mapValue(at string, value any, change func(field, text string) string) any {
	switch v := value.(type) {
	case string:
		return change(at, v)
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = mapValue(at, item, change)
		}

		return list
	case map[string]any:
		fields := make(map[string]any, len(v))
		for name, item := range v {
			fields[domain.CleanText(name)] = mapValue(at+"."+name, item, change)
		}

		return fields
	default:
		return value
	}
}

// Values are the values of references in texts, by their names, such as tick.time.
type Values map[string]string

var reference = regexp.MustCompile(`\{\{\s*([A-Za-z_][^{}\s]*)\s*\}\}`)

// References returns the names that a text refers to as {{NAME}}.
func References(text string) (names []string) {
	if !strings.Contains(text, "{{") {
		return nil
	}

	for _, found := range reference.FindAllStringSubmatch(text, -1) {
		names = append(names, found[1])
	}

	return names
}

// Fill replaces the references in a text by their values. References without a value stay as they
// are, and values are not filled again.
func (v Values) Fill(text string) string {
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		if value, known := v[reference.FindStringSubmatch(found)[1]]; known {
			return value
		}

		return found
	})
}

// Filled returns the target with the references in its texts replaced.
func (t Target) Filled(values Values) Target {
	return t.Map(func(_, text string) string { return values.Fill(text) })
}
