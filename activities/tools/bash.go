package tools

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"everloop/domain"
)

//go:embed bash.md
var bashDescription string

const bashParameters = `{
  "type": "object",
  "properties": {
    "command": {"type": "string", "minLength": 1, "maxLength": 100000, "description": "The command, as for bash -c"},
    "description": {"type": "string", "maxLength": 1000, "description": "What it does, in five to ten words, for the user"},
    "timeout": {"type": "integer", "minimum": 1, "maximum": 600000, "description": "Time limit in milliseconds; 120000 when left out"},
    "run_in_background": {"type": "boolean", "description": "Start it as a background task and return at once"}
  },
  "required": ["command"],
  "additionalProperties": false
}`

const defaultBashTimeout = 2 * time.Minute

// Reasons for which a command is ended from outside.
var (
	errTimedOut = errors.New("the command's time is over")
	errRunaway  = errors.New("the command wrote too much")
)

type bashArguments struct {
	Command     string `json:"command"`
	Description string `json:"description"`
	Timeout     whole  `json:"timeout"`
	Background  bool   `json:"run_in_background"`
}

type bash struct {
	sandbox    Sandbox
	workspaces Workspaces
	background Background
}

func newBash(d Deps) Tool {
	b := bash{d.Sandbox, d.Workspaces, d.Background}
	return Tool{
		Name: "Bash", DisplayName: "Bash",
		Spec:      domain.ToolSpec{Name: "Bash", Description: bashDescription, Parameters: json.RawMessage(bashParameters)},
		Acts:      true,
		Executing: true,
		Check: func(arguments json.RawMessage) string {
			if in, err := decode[bashArguments](arguments); err == nil && strings.ContainsRune(in.Command, 0) {
				return "the command holds a NUL character"
			}
			return ""
		},
		Run:     b.run,
		Summary: member("command"),
	}
}

func (b bash) run(ctx context.Context, c *Call) (Result, error) {
	in, err := decode[bashArguments](c.Arguments)
	if err != nil {
		return Result{}, err
	}
	if in.Background {
		return b.start(ctx, c, in)
	}
	limit := defaultBashTimeout
	if in.Timeout > 0 {
		limit = time.Duration(in.Timeout) * time.Millisecond
	}
	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	clock := time.AfterFunc(limit, func() { cancel(errTimedOut) })
	defer clock.Stop()

	path := outputPath(c.ID)
	out := &output{
		save:    func() (io.WriteCloser, error) { return b.openOutput(run, c.Session, path) },
		live:    newProgress("stdout", c.Progress),
		runaway: func() { cancel(errRunaway) },
	}
	exit, err := b.sandbox.Run(run, Command{
		Session: c.Session, Argv: []string{"bash", "-c", in.Command}, Env: Environment(c.Session.Env), Stdout: out, Stderr: out,
	})
	if err == nil {
		return commandResult(out, path, exit), nil
	}
	switch cause := context.Cause(run); {
	case ctx.Err() != nil:
		return Result{Output: out.finish(path, "[stopped before it ended]"), IsError: true}, ctx.Err()
	case errors.Is(cause, errTimedOut):
		return Result{IsError: true, Output: out.finish(path, fmt.Sprintf(
			"[timed out after %s and was stopped, with everything it had started]", limit))}, nil
	case errors.Is(cause, errRunaway):
		return Result{IsError: true, Output: out.finish(path, fmt.Sprintf(
			"[stopped: it wrote more than %d MiB]", maxOutput>>20))}, nil
	default:
		return Result{IsError: true, Output: out.finish(path, "[the sandbox failed, so it is not known how far the command came]")},
			fmt.Errorf("run command in sandbox: %w", err)
	}
}

// openOutput begins the file of a long output. The file outlives its opener.
func (b bash) openOutput(ctx context.Context, s SessionView, path string) (io.WriteCloser, error) {
	files, err := b.workspaces.Open(context.WithoutCancel(ctx), s)
	if err != nil {
		return nil, err
	}
	file, err := files.Append(context.WithoutCancel(ctx), path)
	if err != nil {
		_ = files.Close()
		return nil, err
	}
	return closeBoth{file, files}, nil
}

// Environment leaves out what no environment can hold, so that one bad variable of
// a session does not keep all its commands from running.
func Environment(env map[string]string) map[string]string {
	kept := maps.Clone(env)
	maps.DeleteFunc(kept, func(name, value string) bool {
		return name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0)
	})
	return kept
}

type closeBoth struct {
	io.WriteCloser
	then io.Closer
}

func (c closeBoth) Close() error { return errors.Join(c.WriteCloser.Close(), c.then.Close()) }

func commandResult(out *output, path string, exit Exit) Result {
	switch {
	case exit.Killed != "":
		return Result{Output: out.finish(path, fmt.Sprintf("[stopped: %s; exit code %d]", exit.Killed, exit.Code)), IsError: true}
	case exit.Code != 0:
		return Result{Output: out.finish(path, fmt.Sprintf("[exit code %d]", exit.Code)), IsError: true}
	}
	text := out.finish(path, "")
	if text == "" {
		text = "(The command ended with exit code 0 and wrote nothing.)"
	}
	return Result{Output: text}
}

// start begins a background task.
func (b bash) start(ctx context.Context, c *Call, in bashArguments) (Result, error) {
	if b.background == nil {
		return *failed("Background tasks are not available here. Run the command without run_in_background."), nil
	}
	title := in.Description
	if title == "" {
		title = redact(oneLine(in.Command))
	}
	task, err := b.background.StartShell(ctx, NewShell{
		SessionID: c.Session.ID, ChatID: c.ChatID, ToolCallID: c.ID,
		Title: cut(clean(title), 200), Command: in.Command,
	})
	if words, ok := refusal(err); err != nil && ok {
		return *failed("The background task was not started: %s", words), nil
	}
	if err != nil {
		return *failed("The background task could not be started because of a fault of the service."), err
	}
	return Result{Output: fmt.Sprintf(
		"Background task %s has started. Its output grows in %s: look at it with Read. "+
			"You are told when it ends; only the user can stop it sooner, from the list of background tasks.",
		task.TaskID, TaskLogPath(task.TaskID))}, nil
}
