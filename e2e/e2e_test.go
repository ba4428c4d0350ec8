// Package e2e drives a whole Everloop through its public interface with the
// official Socket.IO client. The suites are JavaScript on Node's own test runner
// (*.test.mjs); this package runs each of them, so that `go test ./e2e` is all
// that it takes (with -count=1 where the service may have changed: go test does
// not know what it is built from). It must know nothing of the service's code.
package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// suiteTime bounds one suite; the longest kills and restarts the service a dozen
// times.
const suiteTime = 25 * time.Minute

func TestEndToEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the whole service; left out with -short")
	}

	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("the suites need %s: %v", program, err)
		}
	}

	installClient(t)
	binary := serviceBinary(t)

	suites, err := filepath.Glob("*.test.mjs")
	if err != nil || len(suites) == 0 {
		t.Fatalf("no suites found: %v", err)
	}
	// What go test has seen a test look at, it does not take from its cache when
	// that has changed. It does not see what the service was built from.
	sources, _ := filepath.Glob("lib/*.mjs")
	for _, file := range append(append(sources, suites...), binary) {
		if _, err := os.Stat(file); err != nil {
			t.Fatal(err)
		}
	}

	for _, name := range longest {
		if !slices.Contains(suites, name+".test.mjs") {
			t.Errorf("the list of the longest suites names %s, which is not there", name)
		}
	}

	// Each suite has a service of its own, and mostly waits. Parallel subtests would start
	// in no order.
	queue := make(chan string)

	var workers sync.WaitGroup
	for range maxConcurrent() {
		workers.Go(func() {
			for suite := range queue {
				t.Run(strings.TrimSuffix(suite, ".test.mjs"), func(t *testing.T) { runSuite(t, suite, binary) })
			}
		})
	}

	for _, suite := range longestFirst(suites) {
		queue <- suite
	}

	close(queue)
	workers.Wait()
}

// maxConcurrent is how many suites run at a time: what -parallel says.
func maxConcurrent() int {
	return flag.Lookup("test.parallel").Value.(flag.Getter).Get().(int)
}

// longest are the suites that take minutes, in the order in which they start. The
// short ones fill what these leave free; those that stop and slow engines are kept
// apart, since each of them keeps a machine busy.
var longest = []string{
	"deploys", "bare_machine", "engine_outages", "desktop_unattended", "engine_faults", "desktop_live", "replay_faults",
	"engine_networks", "faults", "desktop_pages", "schedules", "processes", "backup_engines", "resume", "transfer_faults",
	"history_faults", "context_faults", "chaos", "webhooks", "mcp", "context", "agents_faults", "desktop_settings", "desktop_tutorial",
}

// longestFirst sorts the files of suites so that no long one is left for the end.
func longestFirst(suites []string) []string {
	place := func(suite string) int {
		if i := slices.Index(longest, strings.TrimSuffix(suite, ".test.mjs")); i >= 0 {
			return i
		}

		return len(longest)
	}

	return slices.SortedStableFunc(slices.Values(suites), func(a, b string) int { return place(a) - place(b) })
}

// serviceBinary is the program that EVERLOOP_BIN names; without it, it is built.
func serviceBinary(t *testing.T) string {
	t.Helper()

	if path := os.Getenv("EVERLOOP_BIN"); path != "" {
		absolute, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}

		return absolute
	}

	path := filepath.Join(t.TempDir(), "everloop")
	if out, err := exec.Command("go", "build", "-o", path, "everloop/cmd/everloop").CombinedOutput(); err != nil {
		t.Fatalf("build the service: %v\n%s", err, out)
	}

	return path
}

// installClient runs npm ci when the installed packages are not those of the
// lock file, one process at a time.
func installClient(t *testing.T) {
	t.Helper()

	lock, err := os.OpenFile("package-lock.json", os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()

	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatalf("wait for another npm ci: %v", err)
	}

	wanted, err := os.Stat("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	// npm writes this file last.
	if made, err := os.Stat(filepath.Join("node_modules", ".package-lock.json")); err == nil && !made.ModTime().Before(wanted.ModTime()) {
		return
	}

	if out, err := exec.Command("npm", "ci").CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
}

// event is a line of report.mjs.
type event struct {
	Test    string  `json:"test"`
	Passed  bool    `json:"passed"`
	Skipped bool    `json:"skipped"`
	Suite   bool    `json:"suite"`
	Millis  float64 `json:"ms"`
	Error   string  `json:"error"`
}

// runSuite runs one file and reports each of its tests as a subtest.
func runSuite(t *testing.T, suite, binary string) {
	ctx, cancel := context.WithTimeout(t.Context(), suiteTime)
	defer cancel()

	cmd := exec.CommandContext(ctx, "node", "--test", "--test-reporter=./lib/report.mjs", suite)

	cmd.Env = append(os.Environ(), "EVERLOOP_BIN="+binary)
	// The services of a suite end with it, however it ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second

	var said strings.Builder

	cmd.Stderr = &said

	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}

	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	count, failed, readErr := report(t, out)
	err = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)

	switch {
	case readErr != nil:
		t.Errorf("%v\n%s", readErr, said.String())
	case err != nil && !failed:
		t.Errorf("node: %v\n%s", err, said.String())
	case count == 0:
		t.Errorf("no test was run\n%s", said.String())
	case failed:
		t.Log(said.String())
	}
}

func report(t *testing.T, out io.Reader) (count int, failed bool, err error) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)

	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return count, failed, fmt.Errorf("a line of the report is not understood: %q", lines.Text())
		}

		failed = failed || !e.Passed
		if e.Suite && e.Passed {
			continue
		}

		count++

		t.Run(e.Test, func(t *testing.T) {
			switch {
			case e.Skipped:
				t.Skip()
			case !e.Passed:
				t.Error(e.Error)
			default:
				t.Logf("%.0f ms", e.Millis)
			}
		})
	}

	if err := lines.Err(); err != nil && !errors.Is(err, os.ErrClosed) {
		return count, failed, err
	}

	return count, failed, nil
}
