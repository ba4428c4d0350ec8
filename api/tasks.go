package api

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
)

// list is what the specification calls only a list.
type list[T any] struct {
	Items []T `json:"items"`
	Total int `json:"total"`
}

func listOf[T any](items []T) list[T] { return list[T]{orEmpty(items), len(items)} }

// sessionTask is one entry of the agent's task list (shapes.md section 5).
type sessionTask struct {
	domain.SessionTask
	Owner     *string  `json:"owner"`
	BlockedBy []string `json:"blocked_by"`
}

// TaskRef is the path of an operation on one background task.
type TaskRef struct {
	SessionID string `path:"session_id"`
	TaskID    string `path:"task_id"`
}

func (s *server) taskRoutes() {
	const path, tag = "/api/sessions/{session_id}/background-tasks", "Background tasks"
	add(s, operation{
		id: "list-background-tasks", method: fiber.MethodGet, path: path, tag: tag, summary: "Background tasks of a session",
		scope: auth.SessionsRead,
	}, func(ctx context.Context, in *SessionRef) (*body[list[domain.BackgroundTask]], error) {
		if _, _, err := s.readable(ctx, in.SessionID); err != nil {
			return nil, err
		}
		tasks, err := s.Tasks.List(ctx, in.SessionID)
		return answer(listOf(tasks), err)
	})
	add(s, operation{
		id: "get-background-task-output", method: fiber.MethodGet, path: path + "/{task_id}", tag: tag,
		summary: "The last lines that a background task wrote", scope: auth.SessionsRead,
	}, s.taskOutput)
	add(s, operation{
		id: "stop-background-task", method: fiber.MethodPost, path: path + "/{task_id}/stop", tag: tag,
		summary: "Stop a background task", scope: auth.Chat,
	}, s.stopTask)
	add(s, operation{
		id: "list-session-tasks", method: fiber.MethodGet, path: "/api/sessions/{session_id}/tasks", tag: "Sessions",
		summary: "The agent's own task list", scope: auth.SessionsRead,
	}, s.sessionTasks)
}

func (s *server) taskOutput(ctx context.Context, in *struct {
	TaskRef
	Tail int `query:"tail" default:"100" minimum:"1" doc:"How many lines, counted from the last; at most 10000 are given."`
},
) (*body[domain.TaskOutput], error) {
	if _, _, err := s.readable(ctx, in.SessionID); err != nil {
		return nil, err
	}
	out, err := s.Tasks.Output(ctx, in.SessionID, in.TaskID, min(in.Tail, 10_000))
	out.Lines, out.Markers = orEmpty(out.Lines), orEmpty(out.Markers)
	return answer(out, err)
}

func (s *server) stopTask(ctx context.Context, in *TaskRef) (*body[domain.BackgroundTask], error) {
	if _, err := s.Store.OwnSession(ctx, callerOf(ctx).User, in.SessionID); err != nil {
		return nil, err
	}
	return answer(s.Tasks.Stop(ctx, in.SessionID, in.TaskID))
}

func (s *server) sessionTasks(ctx context.Context, in *SessionRef) (*body[list[sessionTask]], error) {
	if _, _, err := s.readable(ctx, in.SessionID); err != nil {
		return nil, err
	}
	tasks, err := s.Store.SessionTasks(ctx, in.SessionID)
	items := make([]sessionTask, len(tasks))
	for i, t := range tasks {
		items[i] = sessionTask{SessionTask: t, BlockedBy: []string{}}
	}
	return answer(listOf(items), err)
}
