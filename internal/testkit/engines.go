package testkit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startTime is the timeout for starting the engines, which takes some four seconds on an idle
// machine, mostly for a new database cluster.
const startTime = 10 * time.Minute

// Addresses contains the settings to connect to the engines by name, as "everloop engines" writes
// them to engines.json. The program decides which exist, so that a new engine changes no code
// here.
type Addresses map[string]string

// Get returns a setting. It fails the test when the engine does not run.
func (a Addresses) Get(t testing.TB, setting string) string {
	t.Helper()

	value := a[setting]
	if value == "" {
		t.Fatalf("the engines of this test have no %s", setting)
	}

	return value
}

// engines are started once per test binary.
var engines = sync.OnceValues(startEngines)

// Engines returns running engines: the engines of the file that EVERLOOP_TEST_ENGINES names;
// without it, the first call starts engines, which end with this process. An error fails the
// test.
func Engines(t testing.TB) Addresses {
	t.Helper()

	found, err := engines()
	if err != nil {
		t.Fatalf("the engines that this test needs: %v", err)
	}

	return found
}

func startEngines() (Addresses, error) {
	if path := os.Getenv("EVERLOOP_TEST_ENGINES"); path != "" {
		found, err := readAddresses(path)
		if err != nil {
			return found, fmt.Errorf("file named by EVERLOOP_TEST_ENGINES: %w", err)
		}

		return found, nil
	}

	program := os.Getenv("EVERLOOP_BIN")
	if program == "" {
		built, err := buildProgram()
		if err != nil {
			return nil, err
		}

		program = built
	}

	return runEngines(program, startTime)
}

// lifeline is the engines' standard input. The kernel closes it when this process ends, even by
// kill -9, and then the engines stop. The reference prevents the garbage collector from closing
// it earlier.
var lifeline *os.File //nolint:unused // written only, so that the pipe stays open

// runEngines starts program and waits until its engines are ready.
func runEngines(program string, within time.Duration) (Addresses, error) {
	stdin, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()

	var said lockedBuffer

	cmd := exec.Command(program, "engines", "--temporary", "--watch-stdin")
	cmd.Stdin, cmd.Stderr = stdin, &said
	// A developer's settings must not apply to these engines.
	cmd.Env = append(os.Environ(), "TEMPORAL_ADDR=127.0.0.1:0", "LOG_FORMAT=text", "LOG_LEVEL=warn")
	// Ctrl-C interrupts only the tests; the engines stop after them.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}

	if err != nil {
		write.Close()
		return nil, fmt.Errorf("start %s: %w", program, err)
	}

	ready := make(chan string, 1)

	go func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if path, found := strings.CutPrefix(lines.Text(), "ready "); found {
				ready <- path
			}
		}

		_ = cmd.Wait() // after its output has been read

		close(ready)
	}()

	timeout := time.NewTimer(within)
	defer timeout.Stop()

	select {
	case path, ok := <-ready:
		if !ok {
			write.Close()
			return nil, fmt.Errorf("%s engines ended before it was ready:\n%s", program, said.String())
		}

		found, err := readAddresses(path)
		if err != nil {
			write.Close()
			return found, err
		}

		lifeline = write

		return found, nil
	case <-timeout.C:
		write.Close()
		return nil, fmt.Errorf("%s engines was not ready after %v:\n%s", program, within, said.String())
	}
}

func readAddresses(path string) (Addresses, error) {
	var found Addresses

	content, err := os.ReadFile(path)
	if err != nil {
		return found, err
	}

	if err := json.Unmarshal(content, &found); err != nil {
		return found, fmt.Errorf("%s: %w", path, err)
	}

	for setting, value := range found {
		if value == "" {
			return found, fmt.Errorf("%s has no value of %s", path, setting)
		}
	}

	return found, nil
}

// lockedBuffer buffers the program's output for the message of a failed start.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// maxSaid is the size of the buffer.
const maxSaid = 64 << 10

// Write implements io.Writer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if room := maxSaid - b.text.Len(); room > 0 {
		b.text.Write(p[:min(len(p), room)])
	}

	return len(p), nil
}

// String returns the first 64 KiB of the output.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.text.String()
}
