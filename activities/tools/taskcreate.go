package tools

import (
	"context"
	_ "embed"
	"encoding/json"
	"strings"

	"everloop/domain"
)

//go:embed taskcreate.md
var taskDescription string

const taskParameters = `{
  "type": "object",
  "properties": {
    "subject": {"type": "string", "minLength": 1, "maxLength": 500, "description": "What is to be done, in a few words"},
    "description": {"type": "string", "maxLength": 20000, "description": "Details"},
    "status": {"type": "string", "enum": ["pending", "in_progress", "completed", "cancelled"]},
    "task_id": {"type": "string", "minLength": 1, "maxLength": 100, "description": "The task to change; a new one is made when left out"}
  },
  "anyOf": [{"required": ["subject"]}, {"required": ["task_id"]}],
  "additionalProperties": false
}`

type taskCreate struct{ tasks TaskList }

func newTaskCreate(d Deps) Tool {
	t := taskCreate{d.Tasks}
	return Tool{
		Name: "TaskCreate", DisplayName: "Task",
		Spec:      domain.ToolSpec{Name: "TaskCreate", Description: taskDescription, Parameters: json.RawMessage(taskParameters)},
		Executing: true, // it acts on nothing: the id of the task comes from the call, so that a repeat makes no second one
		Run:       t.run,
		Summary:   member("subject", "status", "task_id"),
	}
}

func (t taskCreate) run(ctx context.Context, c *Call) (Result, error) {
	in, err := decode[struct {
		Subject     *string                   `json:"subject"`
		Description *string                   `json:"description"`
		Status      *domain.SessionTaskStatus `json:"status"`
		TaskID      string                    `json:"task_id"`
	}](c.Arguments)
	if err != nil {
		return Result{}, err
	}
	fields := domain.SessionTaskChange{Subject: cleaned(in.Subject), Description: cleaned(in.Description), Status: in.Status}
	if fields.Subject != nil && strings.TrimSpace(*fields.Subject) == "" {
		return *failed("subject is empty."), nil
	}
	var task domain.SessionTask
	if in.TaskID != "" {
		task, err = t.tasks.ChangeSessionTask(ctx, c.Session.ID, clean(in.TaskID), fields)
	} else {
		task, err = t.tasks.AddSessionTask(ctx, c.Session.ID, taskID(c.ID), fields)
	}
	if words, ok := refusal(err); err != nil && ok {
		return *failed("%s", sentence(words)), nil
	}
	if err != nil {
		return *failed("The list of tasks cannot be reached at the moment."), err
	}
	out, err := json.Marshal(task)
	return Result{Output: string(out)}, err
}

// taskID derives a task's id from the call that makes it, so that a call that is
// tried again makes no second task.
func taskID(callID string) string { return "task_" + strings.TrimPrefix(callID, "call_") }

func cleaned(s *string) *string {
	if s == nil {
		return nil
	}
	text := clean(*s)
	return &text
}
