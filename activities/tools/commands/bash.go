// Package commands holds what runs commands in the sandbox of a session and keeps their
// output: the tool Bash, the commands of outcome contracts, and logs of background tasks.
package commands

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"everloop/activities/tools"
	"everloop/domain"
)

//go:embed bash.md
var bashDescription string

// Reasons for which a command is ended from outside.
var (
	errTimedOut = errors.New("the command's time is over")
	errRunaway  = errors.New("the command wrote too much")
)

type bashArguments struct {
	Command     string      `json:"command" jsonschema:"The command, as for bash -c" limits:"1..100000"`
	Description string      `json:"description,omitempty" jsonschema:"What it does, in five to ten words, for the user" limits:"..1000"`
	Timeout     tools.Whole `json:"timeout,omitempty" limits:"1.."`
	Background  bool        `json:"run_in_background,omitempty" jsonschema:"Start it as a background task and return at once"`
}

type bash struct {
	sandbox    tools.Sandbox
	workspaces tools.Workspaces
	background tools.Background
	limits     tools.Limits
}

// NewBash returns a new tool Bash.
func NewBash(d tools.Deps) tools.Tool {
	b := bash{d.Sandbox, d.Workspaces, d.Background, d.Limits}
	normally, most := d.Limits.BashTimeout.Milliseconds(), d.Limits.BashMost.Milliseconds()
	description := strings.NewReplacer(
		"{timeout}", fmt.Sprint(normally), "{most}", fmt.Sprint(most), "{characters}", fmt.Sprint(d.Limits.Result),
		"{network}", networkWords(d.Network),
	).Replace(bashDescription)
	schema := tools.Parameters[bashArguments](func(s *jsonschema.Schema) {
		timeout, limit := s.Properties["timeout"], float64(most)
		timeout.Maximum = &limit
		timeout.Description = fmt.Sprintf("Time limit in milliseconds; %d when left out", normally)
	})

	return tools.Tool{
		Name: "Bash", DisplayName: "Bash",
		Spec:      domain.ToolSpec{Name: "Bash", Description: description, Parameters: schema},
		Acts:      true,
		Executing: true,
		Check: func(arguments json.RawMessage) string {
			if in, err := tools.Decode[bashArguments](arguments); err == nil && strings.ContainsRune(in.Command, 0) {
				return "the command holds a NUL character"
			}

			return ""
		},
		Run:     b.run,
		Summary: tools.SummaryBy("command"),

		RunSummary: tools.SummaryByFirst("description", "command"),
	}
}

func (b bash) run(ctx context.Context, c *tools.Call) (tools.Result, error) {
	in, err := tools.Decode[bashArguments](c.Arguments)
	if err != nil {
		return tools.Result{}, err
	}

	if in.Background {
		return b.start(ctx, c, in)
	}

	limit := b.limits.BashTimeout
	if in.Timeout > 0 {
		limit = time.Duration(in.Timeout) * time.Millisecond
	}

	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	clock := time.AfterFunc(limit, func() { cancel(errTimedOut) })
	defer clock.Stop()

	path := tools.OutputPath(c.ID)
	out := &output{
		save:    func() (io.WriteCloser, error) { return b.openOutput(run, c.Session, path) },
		live:    newProgress("stdout", c.Progress),
		runaway: func() { cancel(errRunaway) },
		most:    b.limits.Result,
	}

	exit, err := b.sandbox.Run(run, tools.Command{
		Session: c.Session, Argv: []string{"bash", "-c", in.Command}, Env: tools.Environment(c.Session.Env), Stdout: out, Stderr: out,
		Started: func(int) { clock.Reset(limit) }, // waiting for its turn is not the command's time
	})
	if err == nil {
		return commandResult(out, path, exit), nil
	}

	words, refused := tools.Refusal(err)
	ended := func(trailer string) tools.Result {
		return tools.Result{Output: out.finish(path, withRefusals(trailer, exit.Connections)), IsError: true, Connections: exit.Connections}
	}

	switch cause := context.Cause(run); {
	case ctx.Err() != nil:
		return ended("[stopped before it ended]"), ctx.Err()
	case refused:
		return *tools.Failed("%s", words), nil
	case errors.Is(cause, errTimedOut):
		return ended(fmt.Sprintf("[timed out after %s and was stopped, with everything it had started]", limit)), nil
	case errors.Is(cause, errRunaway):
		return ended(fmt.Sprintf("[stopped: it wrote more than %d MiB]", maxOutput>>20)), nil
	default:
		return ended("[the sandbox failed, so it is not known how far the command came]"), fmt.Errorf("run command in sandbox: %w", err)
	}
}

// openOutput starts the file of a long output. The file outlives its opener.
func (b bash) openOutput(ctx context.Context, s tools.SessionView, path string) (io.WriteCloser, error) {
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

type closeBoth struct {
	io.WriteCloser
	then io.Closer
}

func (c closeBoth) Close() error { return errors.Join(c.WriteCloser.Close(), c.then.Close()) }

func commandResult(out *output, path string, exit tools.Exit) tools.Result {
	result := tools.Result{Connections: exit.Connections, IsError: exit.Killed != "" || exit.Code != 0}
	trailer := ""

	switch {
	case exit.Killed != "":
		trailer = fmt.Sprintf("[stopped: %s; exit code %d]", exit.Killed, exit.Code)
	case exit.Code != 0:
		trailer = fmt.Sprintf("[exit code %d]", exit.Code)
	}

	result.Output = out.finish(path, withRefusals(trailer, exit.Connections))
	if result.Output == "" {
		result.Output = "(The command ended with exit code 0 and wrote nothing.)"
	}

	return result
}

// start starts a background task.
func (b bash) start(ctx context.Context, c *tools.Call, in bashArguments) (tools.Result, error) {
	if b.background == nil {
		return *tools.Failed("Background tasks are not available here. Run the command without run_in_background."), nil
	}

	title := in.Description
	if title == "" {
		title = tools.Redact(tools.OneLine(in.Command))
	}

	task, err := b.background.StartShell(ctx, tools.NewShell{
		SessionID: c.Session.ID, ChatID: c.ChatID, ToolCallID: c.ID,
		Title: tools.Cut(tools.Clean(title), 200), Command: in.Command,
	})
	if words, ok := tools.Refusal(err); err != nil && ok {
		return *tools.Failed("The background task was not started: %s", words), nil
	}

	if err != nil {
		return *tools.Failed("The background task could not be started because of a fault of the service."), err
	}

	return tools.Result{Output: fmt.Sprintf(
		"Background task %s has started. Its output grows in %s: look at it with Read. "+
			"You are notified when it ends; only the user can stop it sooner, from the list of background tasks.",
		task.TaskID, tools.TaskLogPath(task.TaskID))}, nil
}
