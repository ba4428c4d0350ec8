package builtin

import (
	"context"
	_ "embed"
	"encoding/json"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"everloop/activities/tools"
	"everloop/domain"
)

//go:embed taskcreate.md
var taskDescription string

type taskArguments struct {
	Subject     *string                   `json:"subject,omitempty" jsonschema:"What is to be done, in a few words" limits:"1..500"`
	Description *string                   `json:"description,omitempty" jsonschema:"Details" limits:"..20000"`
	Status      *domain.SessionTaskStatus `json:"status,omitempty" enum:"pending|in_progress|completed|cancelled"`
	Owner       *string                   `json:"owner,omitempty" jsonschema:"Who does it, for example a sub-agent; empty: not assigned"`
	BlockedBy   *[]string                 `json:"blocked_by,omitempty" jsonschema:"Ids of tasks that have to be done before" each:"1..100"`
	TaskID      string                    `json:"task_id,omitempty" jsonschema:"The task to change; left out: a new one" limits:"1..100"`
}

// taskLimits adds the limits that the domain declares, and that one of two fields says
// which task is meant.
func taskLimits(s *jsonschema.Schema) {
	owner, blockers := domain.MaxTaskOwner, domain.MaxTaskBlockers
	s.Properties["owner"].MaxLength = &owner
	s.Properties["blocked_by"].MaxItems = &blockers
	s.AnyOf = []*jsonschema.Schema{{Required: []string{"subject"}}, {Required: []string{"task_id"}}}
}

type taskCreate struct{ tasks tools.TaskList }

func newTaskCreate(d tools.Deps) tools.Tool {
	t := taskCreate{d.Tasks}

	return tools.Tool{
		Name:        "TaskCreate",
		DisplayName: "Task",
		Spec: domain.ToolSpec{
			Name:        "TaskCreate",
			Description: taskDescription,
			Parameters:  tools.Parameters[taskArguments](taskLimits),
		},
		Executing: true, // it acts on nothing: the id of the task comes from the call, so that a repeat makes no second one
		Run:       t.run,
		Summary:   tools.SummaryBy("subject", "status", "task_id"),
	}
}

func (t taskCreate) run(ctx context.Context, c *tools.Call) (tools.Result, error) {
	in, err := tools.Decode[taskArguments](c.Arguments)
	if err != nil {
		return tools.Result{}, err
	}

	fields := domain.SessionTaskChange{
		Subject: cleaned(in.Subject), Description: cleaned(in.Description), Status: in.Status, Owner: cleaned(in.Owner),
	}
	if in.BlockedBy != nil {
		ids := make([]string, len(*in.BlockedBy))
		for i, id := range *in.BlockedBy {
			ids[i] = tools.Clean(id)
		}

		fields.BlockedBy = &ids
	}

	if fields.Subject != nil && strings.TrimSpace(*fields.Subject) == "" {
		return *tools.Failed("subject is empty."), nil
	}

	var task domain.SessionTask
	if in.TaskID != "" {
		task, err = t.tasks.ChangeSessionTask(ctx, c.Session.ID, tools.Clean(in.TaskID), fields)
	} else {
		task, err = t.tasks.AddSessionTask(ctx, c.Session.ID, taskID(c.ID), fields)
	}

	if words, ok := tools.Refusal(err); err != nil && ok {
		return *tools.Failed("%s", tools.Sentence(words)), nil
	}

	if err != nil {
		return *tools.Failed("The list of tasks cannot be reached at the moment."), err
	}

	out, err := json.Marshal(task)

	return tools.Result{Output: string(out)}, err
}

// taskID derives a task's id from the call that makes it, so that a call that is
// tried again makes no second task.
func taskID(callID string) string { return "task_" + strings.TrimPrefix(callID, "call_") }

func cleaned(s *string) *string {
	if s == nil {
		return nil
	}

	text := tools.Clean(*s)

	return &text
}
