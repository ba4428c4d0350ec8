//go:build linux

package builtin_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/activities/tools/builtin"
	"everloop/domain"
	"everloop/infra/sandbox"
	"everloop/infra/toolbox"
	"everloop/infra/workspace"
)

// seen is the database's part of what was read.
type seen struct {
	mu    sync.Mutex
	etags map[string]string
}

func (s *seen) Record(_ context.Context, _ domain.SessionID, path, etag string) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.etags[path] = etag

	return nil
}

func (s *seen) Change(_ context.Context, _ domain.SessionID, path string, change func(string) (string, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	wrote, err := change(s.etags[path])
	if err == nil && wrote != "" {
		s.etags[path] = wrote
	}

	return err
}

// TestTools_realWorkspace walks through a piece of work with the workspace
// and the sandbox of the service.
func TestTools_realWorkspace(t *testing.T) {
	t.Parallel()

	box, err := sandbox.New(t.Context(), sandbox.Config{})
	if err != nil {
		t.Skipf("no sandbox on this machine: %v", err)
	}

	t.Cleanup(box.Close)

	dir, err := os.MkdirTemp("", "everloop-tools-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o711))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })

	files := toolbox.Files{Store: workspace.New(filepath.Join(dir, "workspace"))}
	registry, err := builtin.New(tools.Deps{
		Workspaces: files, Sandbox: toolbox.Shell{Sandbox: box}, Reads: &seen{etags: map[string]string{}},
	})
	require.NoError(t, err)

	session := tools.SessionView{ID: "session-1", SandboxUID: 100_777, Env: map[string]string{"NAME": "world"}}
	session.Root, err = files.Root(t.Context(), session.ID, session.SandboxUID)
	require.NoError(t, err)

	calls := 0
	do := func(name string, arguments map[string]any) tools.Result {
		t.Helper()

		text, err := json.Marshal(arguments)
		require.NoError(t, err)

		tool, checked, refused := registry.For(t.Context(), tools.Scope{Mode: domain.ModeExecuting}).Admit(name, string(text))
		if refused != nil {
			return *refused
		}

		calls++
		result, err := registry.Run(t.Context(), tool, &tools.Call{
			ID: "call_" + strings.Repeat("i", calls), Session: session, Arguments: checked,
		})
		require.NoError(t, err)

		return result
	}

	type a = map[string]any

	require.Equal(
		t, "Made src/hello.sh (1 lines, 19 bytes).",
		do("Write", a{"file_path": "/workspace/src/hello.sh", "content": "echo \"hello $NAME\"\n"}).Output,
	)
	require.Equal(t, "hello world\n", do("Bash", a{"command": "sh src/hello.sh"}).Output)
	require.Contains(
		t, do("Edit", a{"file_path": "src/hello.sh", "old_string": "hello", "new_string": "good day"}).Output, "+echo \"good day $NAME\"",
	)
	require.Equal(t, "good day world\n", do("Bash", a{"command": "sh src/hello.sh; echo >> src/hello.sh"}).Output)
	require.Contains(
		t, do("Edit", a{"file_path": "src/hello.sh", "old_string": "good", "new_string": "bad"}).Output, "has changed since it was read",
	)
	require.Contains(t, do("Read", a{"file_path": "src/hello.sh"}).Output, "     1\techo \"good day $NAME\"\n")
	require.False(t, do("Edit", a{"file_path": "src/hello.sh", "old_string": "good", "new_string": "bad"}).IsError)
	require.Equal(t, "src/hello.sh:1:echo \"bad day $NAME\"\n", do("Grep", a{"pattern": "bad"}).Output)
	require.Equal(t, "src/hello.sh\n", do("Glob", a{"pattern": "**/*.sh", "path": "/workspace"}).Output)
	require.Equal(t, "bad day world\n", strings.TrimLeft(do("Bash", a{"command": "rm -f x; sh src/hello.sh"}).Output, "\n"))

	long := do("Bash", a{"command": "seq 1 60000"})
	require.LessOrEqual(t, utf8.RuneCountInString(long.Output), tools.MaxResult)

	kept := tools.OutputDir + "/call_" + strings.Repeat("i", calls) + ".txt"
	require.Contains(t, long.Output, kept)
	require.Contains(t, do("Read", a{"file_path": kept, "offset": 59_999}).Output, " 60000\t60000\n")
	require.Equal(t, "60000\n", do("Bash", a{"command": "tail -1 " + kept}).Output, "commands can read it too")
	require.NotContains(t, do("Grep", a{"pattern": "60000"}).Output, kept)

	// Links that lead outside, and what is no file, give no way out and no hang.
	do("Bash", a{"command": "ln -s /etc/passwd link; ln -s /etc dir; mkfifo pipe"})

	for _, refused := range []tools.Result{
		do("Read", a{"file_path": "link"}), do("Read", a{"file_path": "dir/passwd"}), do("Read", a{"file_path": "pipe"}),
		do("Write", a{"file_path": "dir/new", "content": "x"}), do("Write", a{"file_path": "link", "content": "x"}),
		do("Edit", a{"file_path": "link", "old_string": "root", "new_string": "x"}),
		do("Grep", a{"pattern": "root", "path": "dir"}), do("Glob", a{"pattern": "dir/*"}),
		do("Read", a{"file_path": "/etc/passwd"}), do("Read", a{"file_path": "../session-2/x"}),
	} {
		require.True(t, refused.IsError, refused.Output)
		require.NotContains(t, refused.Output, "root:")
		require.NotContains(t, refused.Output, dir, "no path of the host is shown")
	}
	// A file that takes the place of the service's directory costs the copy, not
	// the result.
	do("Bash", a{"command": "rm -rf .everloop; touch .everloop"})
	spoiled := do("Bash", a{"command": "seq 1 60000"})
	require.False(t, spoiled.IsError)
	require.Contains(t, spoiled.Output, "could not be kept")
}
