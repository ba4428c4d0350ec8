package embedded

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// enginesDir names the directory in the environment of a test binary that is run
// again as its own process, to be killed.
const enginesDir = "EMBEDDED_TEST_ENGINES_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(enginesDir); dir != "" {
		if err := runEnginesProcess(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}

		os.Exit(0)
	}

	os.Exit(m.Run())
}

// testServiceKey opens the Temporal servers of tests.
const testServiceKey = "the key of the services of tests"

// addresses is what the engines process says of itself.
type addresses struct {
	Postgres, PostgresTCP, Temporal, UI, Events string
	S3Endpoint, S3AccessKey, S3SecretKey        string
	PostgresPid                                 int
}

func allEngines(dir string) Config {
	return Config{
		Dir: dir,
		Engines: []Engine{
			PostgresConfig{},
			TemporalConfig{Frontend: Listen{Addr: "127.0.0.1:0", Variable: "TEMPORAL_ADDR"}, ServiceKey: testServiceKey},
			TemporalUIConfig{Listen: Listen{Addr: "127.0.0.1:0", Variable: "TEMPORAL_UI_ADDR"}},
			EventsConfig{Listen: Listen{Addr: "127.0.0.1:0"}},
			ObjectsConfig{},
		},
	}
}

func runEnginesProcess(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()

	began := time.Now()

	e, err := Start(ctx, allEngines(dir))
	if err != nil {
		return err
	}

	fmt.Fprintln(os.Stderr, "engines ready after", time.Since(began).Round(time.Millisecond))

	postgres, objects := Of[*Postgres](e), Of[*Objects](e)

	err = json.NewEncoder(os.Stdout).Encode(addresses{
		Postgres: postgres.URL("everloop"), PostgresTCP: postgres.TCPURL("everloop"), PostgresPid: postgres.Pid(),
		Temporal: Of[*Temporal](e).Address(), UI: Of[*TemporalUI](e).URL(), Events: Of[*Events](e).URL(),
		S3Endpoint: objects.Endpoint(), S3AccessKey: objects.AccessKey(), S3SecretKey: objects.SecretKey(),
	})
	if err != nil {
		return err
	}

	closed := make(chan struct{})
	go func() {
		defer close(closed)

		_, _ = io.Copy(io.Discard, os.Stdin)
	}()

	select {
	case <-closed:
	case err = <-e.Dead():
	}

	stopCtx, cancelStop := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancelStop()

	if stopErr := e.Stop(stopCtx); stopErr != nil {
		return stopErr
	}

	return err
}

// enginesProcess is a running engines process.
type enginesProcess struct {
	addresses
	cmd   *exec.Cmd
	stdin io.Closer
}

// startProcess runs the engines on dir in a process of their own.
func startProcess(t *testing.T, dir string) *enginesProcess {
	t.Helper()

	program, err := os.Executable()
	require.NoError(t, err)

	cmd := exec.Command(program)

	cmd.Env = append(os.Environ(), enginesDir+"="+dir)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		stdin.Close()

		_ = cmd.Wait()
	})

	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	require.NoError(t, err, "the engines did not start")

	p := &enginesProcess{cmd: cmd, stdin: stdin}
	require.NoError(t, json.Unmarshal(line, &p.addresses))

	return p
}

// stop ends the process in order and requires that it does so without a fault.
func (p *enginesProcess) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.stdin.Close())
	require.NoError(t, p.cmd.Wait())
}

// kill ends the process as a crash would.
func (p *enginesProcess) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGKILL))
	require.Error(t, p.cmd.Wait())
}
