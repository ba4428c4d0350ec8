package session

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"everloop/api/access"
	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
)

// TaskRef is the path of an operation on one background task.
type TaskRef struct {
	SessionID domain.SessionID `path:"session_id" doc:"The session." example:"01a1fd9b-4f0b-74a3-bdbc-594f816ae116"`
	TaskID    string           `path:"task_id" doc:"The background task." example:"bg_01a1fd9d-6697-73e2-8b37-3d7b3bf3476a"`
}

// TasksAPI lists and stops tasks.
type TasksAPI struct {
	access.Sessions
	Tasks Tasks
}

// Register adds the operations of the area to the interface.
func (a *TasksAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "list-background-tasks", Method: fiber.MethodGet, Path: "/api/sessions/{session_id}/background-tasks", Tag: "Background tasks",
		Summary: "List the background tasks of a session",
		Scope:   auth.SessionsRead,
	}, func(ctx context.Context, in *access.SessionRef) (*httpx.Body[fields.List[domain.BackgroundTask]], error) {
		if _, _, err := a.Readable(ctx, in.SessionID); err != nil {
			return nil, err
		}

		tasks, err := a.Tasks.List(ctx, in.SessionID)

		return httpx.Answer(fields.ListOf(tasks), err)
	})
	httpx.Register(r, httpx.Operation{
		ID: "get-background-task-output", Method: fiber.MethodGet,
		Path: "/api/sessions/{session_id}/background-tasks/{task_id}", Tag: "Background tasks",
		Summary:     "Get the last lines of a background task's output",
		Description: "markers holds, for each line, whether it was written to stdout or stderr.",
		Scope:       auth.SessionsRead,
		Errors:      httpx.Codes{403: access.CodeFilesWithheld, 404: "task_not_found"},
	}, a.taskOutput)
	httpx.Register(r, httpx.Operation{
		ID: "stop-background-task", Method: fiber.MethodPost,
		Path: "/api/sessions/{session_id}/background-tasks/{task_id}/stop", Tag: "Background tasks",
		Summary:     "Stop a background task",
		Description: "Its processes are asked to end, and killed if they do not.",
		Scope:       auth.Chat,
		Errors:      httpx.Codes{404: "task_not_found"},
	}, a.stopTask)
	httpx.Register(r, httpx.Operation{
		ID: "list-session-tasks", Method: fiber.MethodGet, Path: "/api/sessions/{session_id}/tasks", Tag: "Sessions",
		Summary:     "List the agent's own tasks in a session",
		Description: "This is the list that the agent keeps with its tool TaskCreate.",
		Scope:       auth.SessionsRead,
	}, a.sessionTasks)
}

func (a *TasksAPI) taskOutput(ctx context.Context, in *struct {
	TaskRef
	Tail int `query:"tail" default:"100" minimum:"1" doc:"How many lines, counted from the last; at most 10000, and 8 MiB of them, are given." example:"100"`
},
) (*httpx.Body[domain.TaskOutput], error) {
	if _, err := a.ReadableFiles(ctx, in.SessionID); err != nil {
		return nil, err
	}

	out, err := a.Tasks.Output(ctx, in.SessionID, in.TaskID, min(in.Tail, 10_000))
	out.Lines, out.Markers = fields.OrEmpty(out.Lines), fields.OrEmpty(out.Markers)

	return httpx.Answer(out, err)
}

func (a *TasksAPI) stopTask(ctx context.Context, in *TaskRef) (*httpx.Body[domain.BackgroundTask], error) {
	if _, err := a.Own(ctx, in.SessionID); err != nil {
		return nil, err
	}

	return httpx.Answer(a.Tasks.Stop(ctx, in.SessionID, in.TaskID))
}

func (a *TasksAPI) sessionTasks(ctx context.Context, in *access.SessionRef) (*httpx.Body[fields.List[domain.SessionTask]], error) {
	if _, _, err := a.Readable(ctx, in.SessionID); err != nil {
		return nil, err
	}

	tasks, err := a.Store.SessionTasks(ctx, in.SessionID)

	return httpx.Answer(fields.ListOf(tasks), err)
}
