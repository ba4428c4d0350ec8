package localserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"everloop/companions/gateway/localserver/localservertest"
)

func TestMain(m *testing.M) {
	localservertest.Main()

	if len(os.Args) == 3 && os.Args[1] == "parent" {
		parent(os.Args[2])
	}

	os.Exit(m.Run())
}

// parent is a program that runs a server until it is killed.
func parent(model string) {
	program, _ := os.Executable() // else the server fails

	var s *Server

	loaded := make(chan struct{}, 1)
	s = New(Config{Name: "s", Program: program, ModelFile: model, Args: []string{"--ignore-term"}}, nil, func() { loaded <- struct{}{} })
	s.Start()
	<-loaded

	base, _ := s.URL() // it is ready
	fmt.Println(base, s.Key())

	select {}
}

// longest is how long a test waits for what must come.
const longest = 2 * time.Minute

// open starts a server with arguments of the test program; ready gets a value whenever its
// model is loaded.
func open(t *testing.T, change func(*Server), args ...string) (s *Server, ready <-chan struct{}) {
	t.Helper()

	loaded := make(chan struct{}, 100)
	s = New(Config{
		Name: "local", Program: localservertest.Program(t), ModelFile: localservertest.Model(t), Args: args, Context: 1000, Slots: 2,
	}, nil, func() { loaded <- struct{}{} })
	s.timing.firstPause, s.timing.lastPause, s.timing.poll = time.Millisecond, 4*time.Millisecond, time.Millisecond

	if change != nil {
		change(s)
	}

	s.Start()
	t.Cleanup(func() { s.Stop(); await(t, s.Done()) })

	return s, loaded
}

func await(t *testing.T, event <-chan struct{}) {
	t.Helper()

	select {
	case <-event:
	case <-time.After(longest):
		t.Fatal("it did not come")
	}
}

func until(t *testing.T, s *Server, is func(Status) bool) Status {
	t.Helper()

	var seen Status

	require.Eventually(t, func() bool { seen = s.Status(); return is(seen) }, longest, time.Millisecond)

	return seen
}

func ask(t *testing.T, base, key, text string) (status int, body []byte, err error) {
	t.Helper()

	r, err := http.NewRequestWithContext(t.Context(), "POST", base+"/v1/chat/completions", strings.NewReader(text))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+key)

	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()

	body, err = io.ReadAll(res.Body)

	return res.StatusCode, body, err
}

func baseOf(t *testing.T, s *Server) string {
	t.Helper()

	base, err := s.URL()
	require.NoError(t, err)

	return base
}

func given(t *testing.T, base, key string) localservertest.Given {
	t.Helper()

	status, body, err := ask(t, base, key, `{}`)
	require.NoError(t, err)
	require.Equal(t, 200, status)

	var answer struct {
		Choices []struct{ Message struct{ Content string } }
	}
	require.NoError(t, json.Unmarshal(body, &answer))

	var g localservertest.Given
	require.NoError(t, json.Unmarshal([]byte(answer.Choices[0].Message.Content), &g))

	return g
}

// gone reports whether a process has ended, be it reaped or not.
func gone(pid int) bool {
	if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		return true
	}

	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))

	return err != nil || bytes.Contains(text, []byte(") Z "))
}

func TestServer_runsTheProgram(t *testing.T) {
	t.Setenv("LLM_GATEWAY_KEY", "a-secret-of-the-gateway")
	t.Setenv("CUDA_VISIBLE_DEVICES", "1")

	s, ready := open(t, nil, "--loading", "3")
	await(t, ready)
	require.Equal(t, Ready, s.Status().State)

	status, _, err := ask(t, baseOf(t, s), "another-key", `{}`)
	require.NoError(t, err)
	require.Equal(t, 401, status)

	g := given(t, baseOf(t, s), s.Key())
	line := strings.Join(g.Args, " ")
	require.Contains(t, line, "--model "+s.cfg.ModelFile+" --alias tiny --host 127.0.0.1 --port ")
	require.Contains(t, line, " --parallel 2 --ctx-size 2000 --loading 3")
	require.NotContains(t, line, s.Key(), "every user of the machine can read arguments")
	require.Equal(t, "/", g.Directory)

	env := strings.Join(g.Env, "\n")
	require.Contains(t, env, "CUDA_VISIBLE_DEVICES=1")
	require.NotContains(t, env, "a-secret-of-the-gateway")

	lines := s.Status().Output
	require.Equal(t, []string{"key ***"}, lines)

	s.Stop()
	await(t, s.Done())
	require.Equal(t, Ended, s.Status().State)
	require.True(t, gone(g.PID))

	_, err = s.URL()
	require.ErrorContains(t, err, "stopped")
}

func TestServer_startsAgainAfterACrash(t *testing.T) {
	t.Parallel()

	s, ready := open(t, nil)
	await(t, ready)

	before := given(t, baseOf(t, s), s.Key()).PID
	_, _, err := ask(t, baseOf(t, s), s.Key(), "please crash")
	require.Error(t, err)
	await(t, ready)

	require.NotEqual(t, before, given(t, baseOf(t, s), s.Key()).PID)
	require.Equal(t, 1, s.Status().Restarts)
	require.Empty(t, s.Status().Fault)
}

func TestServer_failsAgainAndAgain(t *testing.T) {
	t.Parallel()

	s, _ := open(t, func(s *Server) { s.timing.firstPause, s.timing.lastPause = time.Millisecond, time.Hour }, "--crash")
	status := until(t, s, func(now Status) bool { return now.Restarts >= 3 && now.State == Failed })
	require.Contains(t, status.Fault, "exit status 3")
	require.Equal(t, []string{"key ***", "error: out of memory"}, status.Output)
	require.False(t, status.Next.IsZero())

	_, err := s.URL()
	require.ErrorContains(t, err, "exit status 3")
}

func TestServer_stopsInThePause(t *testing.T) {
	t.Parallel()

	s, _ := open(t, func(s *Server) { s.timing.firstPause, s.timing.lastPause = time.Hour, time.Hour }, "--crash")
	until(t, s, func(now Status) bool { return now.State == Failed })
	s.Stop()
	await(t, s.Done())
}

func TestServer_loadsWithoutEnd(t *testing.T) {
	t.Parallel()

	s, _ := open(t, func(s *Server) { s.cfg.StartTimeout = 3 * time.Second }, "--loading", "-1")
	until(t, s, func(now Status) bool { return now.State == Loading })
	_, err := s.URL()
	require.ErrorContains(t, err, "loading")
	status := until(t, s, func(now Status) bool { return now.State == Failed })
	require.Contains(t, status.Fault, "not loaded within 3s")
}

func TestServer_killsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()

	s, ready := open(t, func(s *Server) { s.timing.grace = 100 * time.Millisecond }, "--ignore-term", "--child")
	await(t, ready)

	g := given(t, baseOf(t, s), s.Key())
	require.False(t, gone(g.Child))
	s.Stop()
	await(t, s.Done())
	require.True(t, gone(g.PID))
	require.Eventually(t, func() bool { return gone(g.Child) }, longest, time.Millisecond)
}

// What a server that has crashed left running ends too.
func TestServer_killsWhatACrashLeaves(t *testing.T) {
	t.Parallel()

	s, ready := open(t, nil, "--child")
	await(t, ready)

	child := given(t, baseOf(t, s), s.Key()).Child
	_, _, err := ask(t, baseOf(t, s), s.Key(), "please crash")
	require.Error(t, err)
	await(t, ready)
	require.Eventually(t, func() bool { return gone(child) }, longest, time.Millisecond)
}

func TestServer_waitsForTheOneBefore(t *testing.T) {
	t.Parallel()

	first, ready := open(t, nil)
	await(t, ready)

	pid := given(t, baseOf(t, first), first.Key()).PID
	alone := make(chan bool, 1)
	second := New(Config{Name: "next", Program: localservertest.Program(t), ModelFile: localservertest.Model(t)}, nil, func() {
		alone <- gone(pid)
	})
	second.Start(first.Done())
	require.Equal(t, Starting, second.Status().State)
	first.Stop()
	until(t, second, func(now Status) bool { return now.State == Ready })
	require.True(t, <-alone)
	second.Stop()
	await(t, second.Done())
}

// A gateway that is killed takes its servers along.
func TestServer_diesWithTheGateway(t *testing.T) {
	t.Parallel()

	cmd := exec.Command(localservertest.Program(t), "parent", localservertest.Model(t))
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())

	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)

	base, key, _ := strings.Cut(strings.TrimSpace(line), " ")
	pid := given(t, base, key).PID
	require.False(t, gone(pid))
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Eventually(t, func() bool { return gone(pid) }, longest, time.Millisecond)
}

// Those without a key of the management see no names of files.
func TestServer_unusableProgram(t *testing.T) {
	t.Parallel()

	s, _ := open(t, func(s *Server) { s.cfg.ModelFile = "/no/such/model.gguf" })
	status := until(t, s, func(now Status) bool { return now.State == Failed })
	require.NotContains(t, status.Words(), "/no/such")
	require.Equal(t, []string{"model_file /no/such/model.gguf does not exist"}, status.Output)
}

func TestServer_neverStarted(t *testing.T) {
	t.Parallel()

	s := New(Config{Name: "s", ModelFile: "/x"}, nil, nil)
	s.Stop()
	await(t, s.Done())
	s.Start()
	require.Equal(t, Ended, s.Status().State)
}

func TestTiming_next(t *testing.T) {
	t.Parallel()

	pause, seen := time.Duration(0), []string{}
	for range 8 {
		pause = usual.next(pause, time.Second)
		seen = append(seen, pause.String())
	}

	require.Equal(t, []string{"1s", "2s", "4s", "8s", "16s", "32s", "1m0s", "1m0s"}, seen)
	require.Equal(t, time.Second, usual.next(pause, time.Hour))
}

func TestConfig_Faults(t *testing.T) {
	t.Parallel()

	require.Empty(t, Config{ModelFile: "/m.gguf", Args: []string{"--n-gpu-layers", "99"}, Context: 4096, Slots: 4}.Faults())

	for name, c := range map[string]struct {
		cfg  Config
		text string
	}{
		"relative model":   {Config{ModelFile: "m.gguf"}, "model_file"},
		"relative program": {Config{ModelFile: "/m", Program: "bin/x"}, "program"},
		"port":             {Config{ModelFile: "/m", Args: []string{"--port", "1"}}, "args[0] must not be --port"},
		"host":             {Config{ModelFile: "/m", Args: []string{"-v", "--host=0.0.0.0"}}, "args[1] must not be --host"},
		"key":              {Config{ModelFile: "/m", Args: []string{"--api-key", "x"}}, "--api-key"},
		"zero byte":        {Config{ModelFile: "/m", Args: []string{"a\x00"}}, "args[0]"},
		"many":             {Config{ModelFile: "/m", Args: make([]string, 257)}, "256"},
		"context":          {Config{ModelFile: "/m", Context: -1}, "context"},
		"slots":            {Config{ModelFile: "/m", Slots: 257}, "slots"},
	} {
		require.ErrorContains(t, errors.Join(c.cfg.Faults()...), c.text, name)
	}
}

func TestConfig_Inspect(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	text := filepath.Join(dir, "text.gguf")
	require.NoError(t, os.WriteFile(text, []byte("version https://git-lfs"), 0o755))

	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, []byte("GGUF"), 0o600))

	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))

	require.NoError(t, Config{Program: text, ModelFile: plain}.Inspect())

	for _, c := range []struct{ program, model, text string }{
		{text, filepath.Join(dir, "none.gguf"), "does not exist"},
		{text, dir, "not a regular file"},
		{text, pipe, "not a regular file"},
		{text, text, "not a GGUF file"},
		{plain, plain, "not executable"},
		{filepath.Join(dir, "none"), plain, "does not exist"},
		{"no-such-llama-server", plain, "PATH"},
	} {
		require.ErrorContains(t, Config{Program: c.program, ModelFile: c.model}.Inspect(), c.text)
	}
}

func TestOutput_bounds(t *testing.T) {
	t.Parallel()

	o := &output{secret: "the-key"}
	write := func(text string) {
		n, err := o.Write([]byte(text))
		require.NoError(t, err)
		require.Len(t, text, n)
	}

	for i := range 100 {
		write(fmt.Sprintf("line %d\n", i))
	}

	require.Len(t, o.last(), keptLines)
	require.Equal(t, "line 99", o.last()[keptLines-1])

	write(strings.Repeat("x", keptBytes-3) + "the-")
	write("key" + strings.Repeat("y", 1<<20))
	write("\n" + strings.Repeat("\x1b[1m", lineRoom/4-1) + "xthe-key\n")
	require.Equal(t, "…", o.last()[keptLines-1], "no part of the key")
	write("\x1b[31mred\x1b[0m\a\ttext \xff\r\nwithout end the-key")

	last := o.last()[keptLines-4:]
	require.Len(t, last[0], keptBytes+len("…"))
	require.NotContains(t, last[0], "the-")
	require.Equal(t, []string{"red text ", "without end ***"}, last[2:])
}

func TestCheckListener(t *testing.T) {
	t.Parallel()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	port := l.Addr().(*net.TCPAddr).Port
	require.NoError(t, checkListener(port))
	require.NoError(t, l.Close())
	require.ErrorContains(t, checkListener(port), "no program")

	table := "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
		"   0: 0100007F:1F90 00000000:0000 01 00000000:00000000 00:00000000 00000000     7        0 1\n" +
		"   1: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  4321        0 2\n"

	uid, found := listener(table, 8080)
	require.True(t, found)
	require.Equal(t, 4321, uid)
	require.ErrorContains(t, checkTable(table, 8080), "another user")
	require.NoError(t, checkTable(strings.ReplaceAll(table, "4321", "0"), 8080), "root may do all")
	require.NoError(t, checkTable(strings.ReplaceAll(table, "4321", strconv.Itoa(os.Geteuid())), 8080))
}
