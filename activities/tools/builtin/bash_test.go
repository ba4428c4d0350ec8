package builtin

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/activities/tools/toolstest"
	"everloop/domain"
)

func TestBash(t *testing.T) {
	t.Parallel()
	b := newBench(t, toolstest.RealSandbox(t))
	b.Session.Env = map[string]string{"GREETING": "good day", "BAD=NAME": "x", "": "y"}
	b.File("notes.txt", "from the workspace\n")

	for name, tc := range map[string]struct {
		arguments toolstest.Args
		want      string
		isError   bool
	}{
		"output":                    {toolstest.Args{"command": "echo hello"}, "hello\n", false},
		"nothing written":           {toolstest.Args{"command": "true"}, "(The command ended with exit code 0 and wrote nothing.)", false},
		"both streams in order":     {toolstest.Args{"command": "echo a; echo b >&2; echo c; echo d >&2"}, "a\nb\nc\nd\n", false},
		"workspace is the start":    {toolstest.Args{"command": "cat notes.txt"}, "from the workspace\n", false},
		"environment of session":    {toolstest.Args{"command": `echo "$GREETING"`}, "good day\n", false},
		"other exit code":           {toolstest.Args{"command": "echo partly; exit 3"}, "partly\n\n[exit code 3]", true},
		"other exit code, silent":   {toolstest.Args{"command": "exit 3"}, "[exit code 3]", true},
		"not UTF-8":                 {toolstest.Args{"command": `printf 'a\xffb\0c\n'`}, "a\uFFFDb\uFFFDc\n", false},
		"no input to wait for":      {toolstest.Args{"command": "cat; echo done"}, "done\n", false},
		"time-out as a float":       {toolstest.Args{"command": "echo hi", "timeout": 100000.0}, "hi\n", false},
		"killed by itself":          {toolstest.Args{"command": "kill -9 $$"}, "[exit code 137]", true},
		"state is not kept":         {toolstest.Args{"command": `echo "[$LEFT]"; LEFT=1`}, "[]\n", false},
		"standard input is no tty":  {toolstest.Args{"command": "test -t 0 || echo none"}, "none\n", false},
		"half a character at end":   {toolstest.Args{"command": `printf 'x\xe2\x82'`}, "x\uFFFD", false},
		"line without its end, bad": {toolstest.Args{"command": "printf x; exit 1"}, "x\n\n[exit code 1]", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			result := b.Do("Bash", tc.arguments)
			require.Equal(t, tc.want, result.Output)
			require.Equal(t, tc.isError, result.IsError)
		})
	}
}

func TestBash_timeLimit(t *testing.T) {
	t.Parallel()

	b := newBench(t, toolstest.RealSandbox(t))
	for limit := 700; ; limit *= 4 {
		result := b.Do("Bash", toolstest.Args{"command": "echo begun; (sleep 600; echo never > late.txt) & sleep 600", "timeout": limit})
		require.True(t, result.IsError)
		require.Contains(t, result.Output, fmt.Sprintf("timed out after %v", time.Duration(limit)*time.Millisecond))

		if strings.Contains(result.Output, "begun\n") || limit > 60_000 {
			require.Contains(t, result.Output, "begun\n")
			return
		} // it had no time to say anything
	}
}

func TestBash_stoppedKeepsOutput(t *testing.T) {
	t.Parallel()
	b := newBench(t, toolstest.RealSandbox(t))

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	b.Progress = func(_, text string) {
		if strings.Contains(text, "begun") {
			cancel()
		}
	}
	result, err := b.Call(ctx, "Bash", toolstest.Args{"command": "echo begun; sleep 600"})
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, result.IsError)
	require.Contains(t, result.Output, "begun\n")
}

func TestBash_characterLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t, toolstest.RealSandbox(t))

	exact := b.Do("Bash", toolstest.Args{"command": "head -c 100000 /dev/zero | tr '\\0' x"})
	require.Equal(t, strings.Repeat("x", tools.MaxResult), exact.Output, "exactly the limit is not shortened")

	// Characters count, not bytes: 100,000 of three bytes each.
	wide := b.Do("Bash", toolstest.Args{"command": `printf '€%.0s' $(seq 100000)`})
	require.Equal(t, tools.MaxResult, tools.Length(wide.Output))
	require.NotContains(t, wide.Output, "left out")

	over := b.Do("Bash", toolstest.Args{"command": "head -c 100001 /dev/zero | tr '\\0' x"})
	require.LessOrEqual(t, tools.Length(over.Output), tools.MaxResult)
	require.Contains(t, over.Output, "100001 characters")
	require.False(t, over.IsError)

	failing := b.Do("Bash", toolstest.Args{"command": "head -c 99995 /dev/zero | tr '\\0' x; exit 9"})
	require.LessOrEqual(t, tools.Length(failing.Output), tools.MaxResult, "the remark on the exit code counts too")
	require.True(t, strings.HasSuffix(failing.Output, "[exit code 9]"))
	require.True(t, failing.IsError)
}

func TestBash_longOutputInFile(t *testing.T) {
	t.Parallel()
	b := newBench(t, toolstest.RealSandbox(t))
	result := b.Do("Bash", toolstest.Args{"command": "seq 1 200000"})
	require.LessOrEqual(t, tools.Length(result.Output), tools.MaxResult)
	require.True(t, strings.HasPrefix(result.Output, "1\n2\n3\n"))
	require.True(t, strings.HasSuffix(result.Output, "199999\n200000\n"))

	path := tools.OutputPath("call_1")
	require.Contains(t, result.Output, path)

	var want strings.Builder
	for i := 1; i <= 200000; i++ {
		fmt.Fprintln(&want, i)
	}

	require.True(t, want.String() == b.Content(path), "the file holds all of it")

	page := b.Do("Read", toolstest.Args{"file_path": path, "offset": 123456, "limit": 2})
	require.Contains(t, page.Output, "123456\t123456\n123457\t123457\n")
}

func TestRead_longOutputLineInPieces(t *testing.T) {
	t.Parallel()
	b := newBench(t, toolstest.RealSandbox(t))
	result := b.Do("Bash", toolstest.Args{"command": "head -c 150000 /dev/zero | tr '\\0' x; echo END"})
	require.Contains(t, result.Output, tools.OutputPath("call_1"))
	page := b.Do("Read", toolstest.Args{"file_path": tools.OutputPath("call_1"), "offset": 75})
	require.Contains(t, page.Output, "    75\t"+strings.Repeat("x", 2000)+"\n    76\tEND\n")
}

func TestBash_liveOutput(t *testing.T) {
	t.Parallel()
	b := newBench(t, toolstest.RealSandbox(t))

	var (
		mu     sync.Mutex
		pieces []string
	)

	first := make(chan struct{})
	b.Progress = func(stream, text string) {
		mu.Lock()
		defer mu.Unlock()

		require.Equal(t, "stdout", stream)

		if pieces = append(pieces, text); len(pieces) == 1 {
			close(first)
		}
	}

	done := make(chan tools.Result, 1)
	go func() {
		done <- b.Do("Bash", toolstest.Args{"command": "echo early; until test -e go; do sleep 0.05; done; seq 1 15000"})
	}()

	select {
	case <-first:
	case <-time.After(time.Minute):
		t.Fatal("no live output")
	}

	require.Empty(t, done, "the first piece comes while the command runs")
	b.File("go", "")

	result := <-done

	mu.Lock()
	defer mu.Unlock()

	require.True(t, result.Output == strings.Join(pieces, ""), "the pieces make up the whole")

	for _, piece := range pieces {
		require.Less(t, len(piece), 4<<10+64<<10)
	}
}

func TestBash_background(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	result := b.Do("Bash", toolstest.Args{"command": "npm run dev", "description": "Start the server", "run_in_background": true})
	require.False(t, result.IsError)
	require.Contains(t, result.Output, "task-1")
	require.Contains(t, result.Output, ".everloop/tasks/task-1.log")
	require.Equal(t, []tools.NewShell{{
		SessionID: "session-1", ChatID: "chat-1", ToolCallID: "call_1", Title: "Start the server", Command: "npm run dev",
	}}, b.Shells.Tasks)
}

// A failing sandbox is distinguished from a failing command.
type broken struct{ tools.Sandbox }

func (broken) Run(context.Context, tools.Command) (tools.Exit, error) {
	return tools.Exit{}, fmt.Errorf("no more pids")
}

func TestBash_sandboxFails(t *testing.T) {
	t.Parallel()
	result, err := newBench(t, broken{}).Call(t.Context(), "Bash", toolstest.Args{"command": "true"})
	require.ErrorContains(t, err, "no more pids")
	require.True(t, result.IsError)
	require.NotContains(t, result.Output, "pids")
}

// full is a sandbox in which as many commands run as may.
type full struct{}

func (full) Run(context.Context, tools.Command) (tools.Exit, error) {
	return tools.Exit{}, domain.Newf(domain.RateLimited, "too_many_commands", "the command did not run: too many run")
}

// The result reports that a command did not run, and no fault is reported.
func TestBash_tooManyCommands(t *testing.T) {
	t.Parallel()
	result, err := newBench(t, full{}).Call(t.Context(), "Bash", toolstest.Args{"command": "true"})
	require.NoError(t, err)
	require.True(t, result.IsError)
	require.Equal(t, "the command did not run: too many run", result.Output)
}

// queued is a sandbox in which a command waits for its turn and then runs as long.
type queued time.Duration

func (q queued) Run(ctx context.Context, c tools.Command) (tools.Exit, error) {
	for _, started := range []bool{false, true} {
		if started {
			c.Started(1)
		}

		select {
		case <-time.After(time.Duration(q)):
		case <-ctx.Done():
			return tools.Exit{}, context.Cause(ctx)
		}
	}

	return tools.Exit{}, nil
}

// The time limit is the command's own: waiting for a turn is not counted.
func TestBash_waitingIsNotTheCommandsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queued(1200*time.Millisecond))
		require.False(t, b.Do("Bash", toolstest.Args{"command": "true", "timeout": 2000}).IsError)
		require.Contains(t, b.Do("Bash", toolstest.Args{"command": "true", "timeout": 100}).Output, "timed out")
	})
}
