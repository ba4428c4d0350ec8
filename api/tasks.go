package api

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
)

// TaskRef is the path of an operation on one background task.
type TaskRef struct {
	SessionID string `path:"session_id" doc:"The session." example:"01a1fd9b-4f0b-74a3-bdbc-594f816ae116"`
	TaskID    string `path:"task_id" doc:"The background task." example:"bg_01a1fd9d-6697-73e2-8b37-3d7b3bf3476a"`
}

// tasksAPI lists and stops tasks.
type tasksAPI struct {
	access
	tasks Tasks
	store taskStore
}

func (a *tasksAPI) register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "list-background-tasks", Method: fiber.MethodGet, Path: "/api/sessions/{session_id}/background-tasks", Tag: "Background tasks",
		Summary: "List the background tasks of a session",
		Scope:   auth.SessionsRead,
	}, func(ctx context.Context, in *SessionRef) (*httpx.Body[list[domain.BackgroundTask]], error) {
		if _, _, err := a.readable(ctx, in.SessionID); err != nil {
			return nil, err
		}

		tasks, err := a.tasks.List(ctx, in.SessionID)

		return httpx.Answer(listOf(tasks), err)
	})
	httpx.Register(r, httpx.Operation{
		ID: "get-background-task-output", Method: fiber.MethodGet,
		Path: "/api/sessions/{session_id}/background-tasks/{task_id}", Tag: "Background tasks",
		Summary:     "Get the last lines of a background task's output",
		Description: "markers holds, for each line, whether it was written to stdout or stderr.",
		Scope:       auth.SessionsRead,
		Errors:      httpx.Codes{404: "task_not_found"},
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

func (a *tasksAPI) taskOutput(ctx context.Context, in *struct {
	TaskRef
	Tail int `query:"tail" default:"100" minimum:"1" doc:"How many lines, counted from the last; at most 10000, and 8 MiB of them, are given." example:"100"`
},
) (*httpx.Body[domain.TaskOutput], error) {
	if _, _, err := a.readable(ctx, in.SessionID); err != nil {
		return nil, err
	}

	out, err := a.tasks.Output(ctx, in.SessionID, in.TaskID, min(in.Tail, 10_000))
	out.Lines, out.Markers = orEmpty(out.Lines), orEmpty(out.Markers)

	return httpx.Answer(out, err)
}

func (a *tasksAPI) stopTask(ctx context.Context, in *TaskRef) (*httpx.Body[domain.BackgroundTask], error) {
	if _, err := a.own(ctx, in.SessionID); err != nil {
		return nil, err
	}

	return httpx.Answer(a.tasks.Stop(ctx, in.SessionID, in.TaskID))
}

func (a *tasksAPI) sessionTasks(ctx context.Context, in *SessionRef) (*httpx.Body[list[domain.SessionTask]], error) {
	if _, _, err := a.readable(ctx, in.SessionID); err != nil {
		return nil, err
	}

	tasks, err := a.store.SessionTasks(ctx, in.SessionID)

	return httpx.Answer(listOf(tasks), err)
}
