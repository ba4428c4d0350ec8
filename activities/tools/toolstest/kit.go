// Package toolstest calls tools in tests as a worker does: admitted and run by a registry,
// on a workspace of the test and in the real sandbox.
package toolstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/infra/sandbox"
)

var shared struct {
	once sync.Once
	box  *sandbox.Sandbox
	err  error
}

// RunTests runs the tests of a package and closes the sandbox that they shared.
func RunTests(m *testing.M) int {
	code := m.Run()

	if shared.box != nil {
		shared.box.Close()
	}

	return code
}

// confined is the real sandbox behind the tools' port.
type confined struct{ *sandbox.Sandbox }

func (c confined) Run(ctx context.Context, command tools.Command) (tools.Exit, error) {
	process, err := c.Start(ctx, sandbox.Spec{
		Argv: command.Argv, Workspace: command.Session.Root, UID: command.Session.SandboxUID,
		Env: command.Env, Stdout: command.Stdout, Stderr: command.Stderr,
	})
	if err != nil {
		return tools.Exit{}, err
	}

	if command.Started != nil {
		command.Started(process.PID())
	}

	result, err := process.Wait()
	if err != nil {
		return tools.Exit{}, err
	}

	switch result.Cause {
	case sandbox.Cancelled, sandbox.Timeout:
		return tools.Exit{}, context.Cause(ctx)
	case sandbox.Exited:
		return tools.Exit{Code: result.ExitCode}, nil
	case sandbox.NotStarted:
		return tools.Exit{Code: 127}, nil
	default:
		return tools.Exit{Code: result.ExitCode, Killed: strings.ReplaceAll(string(result.Cause), "_", " ")}, nil
	}
}

// RealSandbox returns the sandbox that all tests of a package share. Where the machine has
// none, the test is skipped, and fails in CI.
func RealSandbox(t testing.TB) tools.Sandbox {
	t.Helper()
	shared.once.Do(func() {
		shared.box, shared.err = sandbox.New(context.Background(), sandbox.Config{MinLevel: sandbox.Landlocked})
	})

	if shared.err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(shared.err)
		}

		t.Skipf("no sandbox on this machine: %v", shared.err)
	}

	return confined{shared.box}
}

// memory remembers reads as the database does: one change of a path at a time.
type memory struct {
	mu    sync.Mutex
	locks map[string]*sync.Mutex
	seen  map[string]string
}

func newMemory() *memory { return &memory{locks: map[string]*sync.Mutex{}, seen: map[string]string{}} }

func (m *memory) Record(_ context.Context, session domain.SessionID, path, etag string) error {
	m.mu.Lock()
	defer m.mu.Unlock()

	m.seen[string(session)+"\x00"+path] = etag

	return nil
}

func (m *memory) Change(_ context.Context, session domain.SessionID, path string, change func(string) (string, error)) error {
	key := string(session) + "\x00" + path

	m.mu.Lock()

	lock := m.locks[key]
	if lock == nil {
		lock = &sync.Mutex{}
		m.locks[key] = lock
	}
	m.mu.Unlock()
	lock.Lock()
	defer lock.Unlock()

	m.mu.Lock()
	seen := m.seen[key]
	m.mu.Unlock()

	wrote, err := change(seen)
	if err != nil {
		return err
	}

	m.mu.Lock()
	defer m.mu.Unlock()

	m.seen[key] = wrote

	return nil
}

// Directory reaches a workspace with the standard library.
type Directory struct{}

// Open implements tools.Workspaces.
func (Directory) Open(_ context.Context, s tools.SessionView) (tools.Files, error) {
	root, err := os.OpenRoot(s.Root)
	if err != nil {
		return nil, err
	}

	return rooted{root}, nil
}

type rooted struct{ root *os.Root }

func (r rooted) Close() error { return r.root.Close() }

func described(path string, info fs.FileInfo) tools.FileInfo {
	return tools.FileInfo{
		Path: path, ETag: fmt.Sprintf("%d-%d", info.ModTime().UnixNano(), info.Size()), Size: info.Size(),
		ModTime: info.ModTime(), IsDir: info.IsDir(), Regular: info.Mode().IsRegular(),
	}
}

// fileError turns an error of the file system into the one of the port.
func fileError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return domain.Newf(domain.NotFound, domain.CodeFileNotFound, "the file does not exist")
	case err != nil && strings.Contains(err.Error(), "escapes"):
		return domain.Newf(domain.Malformed, domain.CodePathOutside, "the path leaves the workspace")
	}

	return err
}

func (r rooted) Clean(name string) (string, error) {
	clean := path.Clean(name)
	for _, root := range []string{"/workspace", r.root.Name()} {
		if clean == root || strings.HasPrefix(clean, root+"/") {
			clean = path.Clean("." + clean[len(root):])
		}
	}

	switch {
	case strings.ContainsRune(name, 0):
		return "", domain.Newf(domain.Malformed, domain.CodeInvalidRequest, "the path holds a zero byte")
	case path.IsAbs(clean), clean == "..", strings.HasPrefix(clean, "../"):
		return "", domain.Newf(domain.Malformed, domain.CodePathOutside, "%s leaves the workspace", name)
	}

	return clean, nil
}

func (r rooted) Read(path string) (io.ReadSeekCloser, tools.FileInfo, error) {
	file, err := r.root.Open(path)
	if err != nil {
		return nil, tools.FileInfo{}, fileError(err)
	}

	info, err := file.Stat()
	if err != nil {
		return nil, tools.FileInfo{}, err
	}

	if !info.Mode().IsRegular() {
		_ = file.Close()
		return nil, tools.FileInfo{}, domain.Newf(domain.Invalid, "not_a_regular_file", "%s is not a regular file", path)
	}

	return file, described(path, info), nil
}

func (r rooted) Stat(path string) (tools.FileInfo, error) {
	info, err := r.root.Stat(path)
	if err != nil {
		return tools.FileInfo{}, fileError(err)
	}

	return described(path, info), nil
}

func (r rooted) Write(_ context.Context, path string, content io.Reader, ifMatch string) (tools.FileInfo, error) {
	now, err := r.Stat(path)
	if ifMatch == tools.Absent && err == nil {
		return tools.FileInfo{}, domain.Newf(domain.Conflict, "file_exists", "%s exists already", path)
	}

	if ifMatch != "" && ifMatch != tools.Absent && (err != nil || now.ETag != ifMatch) {
		return tools.FileInfo{}, domain.Newf(domain.Conflict, "stale_file", "%s was changed since it was read", path)
	}

	if err := r.root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return tools.FileInfo{}, fileError(err)
	}

	draft := path + ".draft"

	file, err := r.root.Create(draft)
	if err != nil {
		return tools.FileInfo{}, fileError(err)
	}

	if _, err := io.Copy(file, content); err != nil {
		return tools.FileInfo{}, err
	}

	if err := file.Close(); err != nil {
		return tools.FileInfo{}, err
	}

	if err := r.root.Rename(draft, path); err != nil {
		return tools.FileInfo{}, fileError(err)
	}

	return r.Stat(path)
}

func (r rooted) Append(_ context.Context, path string) (io.WriteCloser, error) {
	if err := r.root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fileError(err)
	}

	file, err := r.root.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)

	return file, fileError(err)
}

func (r rooted) Walk(_ context.Context, dir string, visit func(tools.FileInfo) error) error {
	return fs.WalkDir(r.root.FS(), dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fileError(err)
		}

		info, err := entry.Info()
		if err != nil {
			return err
		}

		return visit(described(path, info))
	})
}

// tasks keeps the agent's task list.
type tasks struct {
	mu   sync.Mutex
	list map[string]domain.SessionTask
}

func (s *tasks) AddSessionTask(_ context.Context, _ domain.SessionID, id string, in domain.SessionTaskChange) (domain.SessionTask, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if task, ok := s.list[id]; ok {
		return task, nil
	}

	return s.keep(domain.SessionTask{ID: id, Subject: *in.Subject, Status: domain.SessionTaskPending}, in), nil
}

func (s *tasks) ChangeSessionTask(
	_ context.Context,
	_ domain.SessionID,
	id string,
	in domain.SessionTaskChange,
) (domain.SessionTask, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	task, ok := s.list[id]
	if !ok {
		return task, domain.Newf(domain.NotFound, "task_not_found", "task %s does not exist", id)
	}

	return s.keep(task, in), nil
}

func (s *tasks) keep(task domain.SessionTask, in domain.SessionTaskChange) domain.SessionTask {
	if in.Status != nil {
		task.Status = *in.Status
	}

	if in.Owner != nil {
		task.Owner = in.Owner
	}

	if in.BlockedBy != nil {
		task.BlockedBy = *in.BlockedBy
	}

	s.list[task.ID] = task

	return task
}

// Started remembers what was started in the background.
type Started struct {
	Tasks  []tools.NewShell
	Agents []tools.NewAgentTask
}

// StartShell implements tools.Background.
func (s *Started) StartShell(_ context.Context, task tools.NewShell) (domain.BackgroundTask, error) {
	s.Tasks = append(s.Tasks, task)
	return domain.BackgroundTask{TaskID: "task-1"}, nil
}

// StartAgent implements tools.Background.
func (s *Started) StartAgent(_ context.Context, task tools.NewAgentTask) (domain.BackgroundTask, error) {
	s.Agents = append(s.Agents, task)
	return domain.BackgroundTask{TaskID: "task-2"}, nil
}

// Bench is a session, and the tools that its model can call.
type Bench struct {
	T        testing.TB
	Registry *tools.Registry
	Session  tools.SessionView
	reads    *memory
	Shells   *Started
	Mode     domain.Mode
	disabled []string
	headless bool
	Progress func(stream, text string)
	calls    int
	mu       sync.Mutex
}

// NewBench returns a new session whose tools are those of build.
func NewBench(t testing.TB, box tools.Sandbox, build func(tools.Deps) (*tools.Registry, error), limits ...tools.Limits) *Bench {
	t.Helper()
	dir := t.TempDir()
	// The session's own user works here, and has to get here.
	require.NoError(t, os.Chmod(dir, 0o777))

	for up := filepath.Dir(dir); up != os.TempDir() && len(up) > 1; up = filepath.Dir(up) {
		require.NoError(t, os.Chmod(up, 0o755))
	}

	b := &Bench{
		T: t, reads: newMemory(), Shells: &Started{}, Mode: domain.ModeExecuting,
		Session: tools.SessionView{ID: "session-1", SandboxUID: 100_321, Root: dir, Env: map[string]string{}},
	}

	var err error

	b.Registry, err = build(tools.Deps{
		Limits:     append(limits, tools.Limits{})[0],
		Workspaces: Directory{}, Sandbox: box, Reads: b.reads,
		Tasks: &tasks{list: map[string]domain.SessionTask{}}, Background: b.Shells,
	})
	require.NoError(t, err)

	return b
}

// Set gives the tools of the main loop of a chat.
func (b *Bench) Set(mode domain.Mode, headless bool, disabled ...string) *tools.Toolset {
	return b.Registry.For(
		context.Background(),
		tools.Scope{Session: domain.Session{DisableTools: disabled}, Mode: mode, Headless: headless},
	)
}

// Call does what a worker does with a call of the model's.
func (b *Bench) Call(ctx context.Context, name string, arguments any) (tools.Result, error) {
	b.T.Helper()

	text, ok := arguments.(string)
	if !ok {
		data, err := json.Marshal(arguments)
		require.NoError(b.T, err)

		text = string(data)
	}

	tool, checked, refused := b.Set(b.Mode, b.headless, b.disabled...).Admit(name, text)
	if refused != nil {
		return *refused, nil
	}

	b.mu.Lock()
	b.calls++
	id := fmt.Sprintf("call_%d", b.calls)
	b.mu.Unlock()

	return b.Registry.Run(ctx, tool, &tools.Call{
		ID: id, Session: b.Session, ChatID: "chat-1", EntryID: "turn-1", Arguments: checked, Progress: b.Progress,
	})
}

// Do is Call where only the result matters.
func (b *Bench) Do(name string, arguments any) tools.Result {
	b.T.Helper()
	result, err := b.Call(b.T.Context(), name, arguments)
	require.NoError(b.T, err)

	return result
}

// File makes a file of the workspace.
func (b *Bench) File(name, content string) {
	b.T.Helper()
	path := filepath.Join(b.Session.Root, name)
	require.NoError(b.T, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(b.T, os.WriteFile(path, []byte(content), 0o644))
}

// Content reads a file of the workspace.
func (b *Bench) Content(name string) string {
	b.T.Helper()
	data, err := os.ReadFile(filepath.Join(b.Session.Root, name))
	require.NoError(b.T, err)

	return string(data)
}

// Args are the arguments of a call.
type Args map[string]any

// With adds arguments to others.
func With(base Args, more Args) Args {
	merged := maps.Clone(base)
	maps.Copy(merged, more)

	return merged
}
