//go:build linux

package toolbox

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"everloop/activities/tools"
	"everloop/activities/tools/agents"
	"everloop/activities/tools/builtin"
	"everloop/activities/tools/commands"
	"everloop/domain"
	"everloop/infra/workspace"
	"everloop/infra/workspace/sessionfiles"
	"everloop/service/files"
)

const (
	manyEntries  = 1_000_000
	agentEntries = 100_000
	// What a reader may hold of the heap beyond what there was before, bytes. Garbage
	// that is not collected yet is not held.
	peakLimit = 64 << 20
	// collectEvery is how often it is looked at.
	collectEvery = 50 * time.Millisecond
	// A reader takes a second or two; a machine that is busy more.
	timeLimit = 10 * time.Minute
)

// hostile is a workspace with everything in it that a command can make to trouble a
// reader.
type hostile struct {
	t       *testing.T
	files   tools.Files
	rest    sessionfiles.Files
	session domain.Session
	host    string
}

// newHostile makes it in memory where there is a file system in memory: a million
// entries take seconds there.
func newHostile(t *testing.T) *hostile {
	t.Helper()

	parent := "/dev/shm"

	var room unix.Statfs_t

	err := errors.Join(unix.Access(parent, unix.W_OK), unix.Statfs(parent, &room))
	if err != nil || room.Ffree < 2*manyEntries || room.Bavail*uint64(room.Bsize) < 2<<30 {
		parent = ""
	}

	dir, err := os.MkdirTemp(parent, "everloop-hostile-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })

	store := workspace.New(filepath.Join(dir, "workspace"))
	w, err := store.Open(t.Context(), "s", 0)
	require.NoError(t, err)

	defer w.Close()

	files, err := Files{Store: store}.Open(t.Context(), tools.SessionView{ID: "s"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = files.Close() })
	h := &hostile{t: t, files: files, rest: sessionfiles.Files{Store: store}, session: domain.Session{ID: "s"}, host: w.HostPath()}

	h.write("sparse", func(f *os.File) error { return f.Truncate(1 << 30) })
	h.write("picture.png", func(f *os.File) error { // a header whose chunk does not end
		_, err := f.WriteString("\x89PNG\r\n\x1a\n\x7f\xff\xff\xffIHDR")
		return errors.Join(err, f.Truncate(1<<30))
	})
	h.write("endless", func(f *os.File) error {
		block := []byte(strings.Repeat("x", 1<<20))
		for range 300 {
			if _, err := f.Write(block); err != nil {
				return err
			}
		}

		return nil
	})
	h.write("linefeeds", func(f *os.File) error {
		_, err := f.WriteString(strings.Repeat("\n", 24<<20))
		return err
	})
	h.write("feeds", func(f *os.File) error {
		_, err := f.WriteString(strings.Repeat("\n", 2<<20))
		return err
	})
	require.NoError(t, unix.Mkfifo(filepath.Join(h.host, "fifo"), 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("TOP-SECRET"), 0o644))

	for name, target := range map[string]string{"itself": "itself", "zero": "/dev/zero", "outside": "../../secret"} {
		require.NoError(t, os.Symlink(target, filepath.Join(h.host, name)))
	}

	h.many("many", manyEntries, "")
	h.many(agents.AgentDir, agentEntries, ".md")

	return h
}

func (h *hostile) write(name string, content func(*os.File) error) {
	h.t.Helper()
	f, err := os.Create(filepath.Join(h.host, name))
	require.NoError(h.t, err)
	require.NoError(h.t, content(f))
	require.NoError(h.t, f.Close())
}

// many makes a directory with many empty files.
func (h *hostile) many(name string, count int, suffix string) {
	h.t.Helper()
	dir := filepath.Join(h.host, name)
	require.NoError(h.t, os.MkdirAll(dir, 0o755))
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(h.t, err)

	defer func() { _ = unix.Close(fd) }()

	var all sync.WaitGroup

	workers := runtime.NumCPU()
	for worker := range workers {
		all.Go(func() {
			for i := worker; i < count; i += workers {
				if err := unix.Mknodat(fd, strconv.Itoa(i)+suffix, unix.S_IFREG|0o644, 0); err != nil {
					h.t.Error(err)
					return
				}
			}
		})
	}

	all.Wait()
}

// bounded fails the test when do holds much of the heap, or takes long.
func bounded(t *testing.T, do func(ctx context.Context) (string, error)) string {
	t.Helper()

	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	heap := func() uint64 {
		runtime.GC()
		metrics.Read(sample)

		return sample[0].Value.Uint64()
	}
	before, peak := heap(), uint64(0)

	ctx, stop := context.WithTimeout(t.Context(), timeLimit)
	defer stop()

	type outcome struct {
		text string
		err  error
	}

	ended := make(chan outcome, 1)
	began := time.Now()

	go func() {
		text, err := do(ctx)
		ended <- outcome{text, err}
	}()

	tick := time.NewTicker(collectEvery)
	defer tick.Stop()

	for {
		select {
		case <-tick.C:
			peak = max(peak, heap())
		case out := <-ended:
			held := max(peak, before) - before
			t.Logf("%v, %d MiB", time.Since(began).Round(time.Millisecond), held>>20)
			require.NoError(t, ctx.Err())
			require.Less(t, held, uint64(peakLimit))

			if e, ok := errors.AsType[*domain.Error](out.err); ok {
				return e.Code
			}

			require.NoError(t, out.err)

			return out.text
		case <-time.After(timeLimit + time.Minute):
			t.Fatal("a reader does not end")
		}
	}
}

// reads remembers the versions that were read.
type reads struct{ seen map[string]string }

func (r reads) Record(_ context.Context, _ domain.SessionID, path, etag string) error {
	r.seen[path] = etag
	return nil
}

func (r reads) Change(_ context.Context, _ domain.SessionID, path string, change func(string) (string, error)) error {
	_, err := change(r.seen[path])
	return err
}

// tool runs a tool of the agent as a chat does.
func (h *hostile) tool(ctx context.Context, name string, arguments map[string]any) (string, error) {
	seen := reads{map[string]string{}}

	if path, ok := arguments["file_path"].(string); ok {
		if info, err := h.files.Stat(path); err == nil {
			seen.seen[path] = info.ETag
		}
	}

	registry, err := builtin.New(tools.Deps{Workspaces: Files{Store: h.rest.Store}, Reads: seen})
	if err != nil {
		return "", err
	}

	text, err := json.Marshal(arguments)
	if err != nil {
		return "", err
	}

	set := registry.For(ctx, tools.Scope{Session: h.session, Mode: domain.ModeExecuting})

	admitted, checked, refused := set.Admit(name, string(text))
	if refused != nil {
		return refused.Output, nil
	}

	result, err := registry.Run(ctx, admitted, &tools.Call{ID: "call", Session: tools.SessionView{ID: "s"}, Arguments: checked})

	return result.Output, err
}

// Everything of the service that reads a workspace, fed with everything that a
// command can put there: it ends, holds little, and returns what is right or an error
// with a stable code.
func TestReaders_areBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a million files")
	}

	h := newHostile(t)

	type reader func(ctx context.Context, name string) (string, error)

	taskLog := func(ctx context.Context, name string) (string, error) {
		file, _, err := h.files.Read(name)
		if err != nil {
			return "", err
		}
		defer file.Close()

		out, err := commands.ReadTaskLog(ctx, file, 100)

		return strconv.FormatInt(out.TotalLines, 10) + " lines, " + strconv.Itoa(len(out.Lines)) + " given", err
	}
	read := func(ctx context.Context, name string) (string, error) {
		return h.tool(ctx, "Read", map[string]any{"file_path": name})
	}
	readFar := func(ctx context.Context, name string) (string, error) {
		return h.tool(ctx, "Read", map[string]any{"file_path": name, "offset": 2_000_000, "limit": 1})
	}
	edit := func(ctx context.Context, name string) (string, error) {
		return h.tool(ctx, "Edit", map[string]any{"file_path": name, "old_string": "y", "new_string": "z"})
	}
	grep := func(ctx context.Context, name string) (string, error) {
		return h.tool(ctx, "Grep", map[string]any{"pattern": "^$", "path": name, "output_mode": "count"})
	}
	grepLines := func(ctx context.Context, name string) (string, error) {
		return h.tool(ctx, "Grep", map[string]any{"pattern": `\n`, "path": name, "multiline": true})
	}
	glob := func(ctx context.Context, name string) (string, error) {
		return h.tool(ctx, "Glob", map[string]any{"pattern": "**/7", "path": name})
	}
	list := func(ctx context.Context, name string) (string, error) {
		found, err := h.rest.List(ctx, h.session, name)
		return strconv.Itoa(len(found)) + " entries", err
	}
	download := func(ctx context.Context, name string) (string, error) {
		file, info, err := h.rest.Open(ctx, h.session, name)
		if err != nil {
			return "", err
		}
		defer file.Close()

		if _, err := file.Seek(-1, io.SeekEnd); err != nil {
			return "", err
		}

		last, err := io.ReadAll(file)

		return strconv.Itoa(len(last)) + " of " + strconv.FormatInt(info.Size, 10), err
	}
	zip := func(ctx context.Context, name string) (string, error) {
		write, err := h.rest.Zip(ctx, h.session, name)
		if err != nil {
			return "", err
		}

		return "zip", write(ctx, io.Discard)
	}
	agentTypes := func(ctx context.Context, _ string) (string, error) {
		provider, err := agents.NewAgents(tools.Deps{Workspaces: Files{Store: h.rest.Store}})
		if err != nil {
			return "", err
		}

		_, problems := provider.Types(ctx, tools.Scope{Session: h.session})

		return strings.Join(problems, "\n"), nil
	}

	write := func(ctx context.Context, name string) (string, error) {
		return h.tool(ctx, "Write", map[string]any{"file_path": name, "content": "x"})
	}
	appendTo := func(ctx context.Context, name string) (string, error) { // saved outputs and task logs
		file, err := h.files.Append(ctx, name)
		if err == nil {
			err = file.Close()
		}

		return "appended", err
	}
	carrier := files.Carrier{Workspaces: h.rest.Store}
	export := func(ctx context.Context, _ string) (string, error) {
		entries, opened := 0, 0
		err := carrier.Walk(ctx, h.session, func(f files.File) error {
			entries++
			if f.Open == nil || entries > 1000 {
				return nil
			}

			content, err := f.Open()
			if err == nil {
				opened++
				err = content.Close()
			}

			return err
		})

		return "all: " + strconv.FormatBool(entries > manyEntries+agentEntries && opened > 0), err
	}

	const outside, notRegular, directory = domain.CodePathOutside, workspace.CodeNotRegular, workspace.CodeIsDirectory
	for name, tc := range map[string]struct {
		read reader
		want map[string]string // by what is read: a code, or a part of the answer
	}{
		"task log": {taskLog, map[string]string{
			"sparse": "0 lines, 0 given", "endless": "0 lines, 0 given", "linefeeds": "25165824 lines, 100 given",
			"fifo": notRegular, "itself": notRegular, "zero": outside, "outside": outside, "many": directory,
		}},
		"Read": {read, map[string]string{
			"sparse": "is a binary file", "endless": "cut: the line has 314572800 bytes", "linefeeds": "go on with offset 2001",
			"fifo":   "is not a regular file",
			"itself": "broken symbolic link",
			"zero":   "leaves the workspace", "outside": "leaves the workspace",
			"many": "is a directory", "picture.png": "is an image",
		}},
		"Read far": {readFar, map[string]string{"linefeeds": "go on with offset 2000001", "endless": "nothing at offset"}},
		"Edit": {edit, map[string]string{
			"sparse": "Edit handles at most", "endless": "Edit handles at most", "fifo": "is not a regular file",
			"itself": "broken symbolic link",
			"many":   "is a directory",
		}},
		"Grep": {grep, map[string]string{
			"sparse": "not searched", "endless": "not searched", "feeds": "feeds:2097152", "many": "Nothing matches.",
			"fifo": "neither a file nor a directory", "itself": "neither a file nor a directory", "zero": "neither a file nor a directory",
		}},
		"Grep multiline": {grepLines, map[string]string{"feeds": "feeds:1:\nfeeds:2:\n"}},
		"Glob":           {glob, map[string]string{"many": "many/7\n", "fifo": "is not a directory"}},
		"ls": {list, map[string]string{
			"many": workspace.CodeTooManyEntries, "fifo": workspace.CodeNotDirectory, "itself": notRegular, "outside": outside,
		}},
		"download": {download, map[string]string{
			"sparse": "1 of 1073741824", "endless": "1 of 314572800", "fifo": notRegular, "itself": notRegular,
			"zero": outside, "many": directory,
		}},
		"zip": {zip, map[string]string{
			"many": workspace.CodeTooManyEntries, ".": workspace.CodeTooManyEntries, "fifo": workspace.CodeNotDirectory,
		}},
		"Write": {write, map[string]string{
			"fifo": "is not a regular file", "outside": "is not a regular file", "zero": "is not a regular file", "many": "is a directory",
		}},
		"append": {appendTo, map[string]string{
			"fifo": notRegular, "itself": notRegular, "zero": notRegular, "outside": notRegular, "many": directory,
		}},
		"export":        {export, map[string]string{".": "all: true"}},
		"agents' files": {agentTypes, map[string]string{agents.AgentDir: "holds more than 50 files"}},
	} {
		for what, want := range tc.want {
			t.Run(name+"/"+what, func(t *testing.T) {
				got := bounded(t, func(ctx context.Context) (string, error) { return tc.read(ctx, what) })
				require.Contains(t, got[:min(len(got), 4096)]+got[max(0, len(got)-4096):], want)
				require.NotContains(t, got, "TOP-SECRET")
			})
		}
	}
}

// A copy of a session's files, for a replay or a fork, takes what is a file and
// nothing else, without waiting for a pipe and without following a link.
func TestCarrier_CopyFiles_hostileWorkspace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := workspace.New(filepath.Join(dir, "workspace"))
	from, to := domain.Session{ID: "from"}, domain.Session{ID: "to"}
	source, err := store.Open(t.Context(), from.ID, 0)
	require.NoError(t, err)

	defer source.Close()

	host := source.HostPath()

	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("TOP-SECRET"), 0o644))
	require.NoError(t, unix.Mkfifo(filepath.Join(host, "fifo"), 0o666))
	require.NoError(t, os.Symlink("../../secret", filepath.Join(host, "outside")))
	require.NoError(t, os.Symlink("itself", filepath.Join(host, "itself")))
	require.NoError(t, os.WriteFile(filepath.Join(host, "sparse"), nil, 0o644))
	require.NoError(t, os.Truncate(filepath.Join(host, "sparse"), 64<<20))

	deep := host
	for range 200 {
		deep = filepath.Join(deep, "d")
	}

	require.NoError(t, os.MkdirAll(deep, 0o755))

	bounded(t, func(ctx context.Context) (string, error) {
		return "", files.Carrier{Workspaces: store}.CopyFiles(ctx, from, to, "")
	})
	target, err := store.Open(t.Context(), to.ID, 0)
	require.NoError(t, err)

	defer target.Close()

	entries, err := os.ReadDir(target.HostPath())
	require.NoError(t, err)

	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}

	require.ElementsMatch(t, []string{"d", "itself", "outside", "sparse"}, names)

	link, err := os.Readlink(filepath.Join(target.HostPath(), "outside"))
	require.NoError(t, err)
	require.Equal(t, "../../secret", link)
}
