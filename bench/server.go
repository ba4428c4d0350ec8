package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// server is the service under test: one `everloop up` on a directory of its own.
type server struct {
	binary, dir, modelURL string
	key                   string
	addr                  map[string]string
	cmd                   *exec.Cmd
	exited                chan error
}

func newServer(binary, dir, modelURL string) (*server, error) {
	path, err := filepath.Abs(binary)
	if err != nil {
		return nil, err
	}

	s := &server{binary: path, dir: dir, modelURL: modelURL, key: "el_" + rand.Text() + rand.Text(), addr: map[string]string{}}
	for _, variable := range []string{
		"AGENT_ADDR", "DESKTOP_ADDR", "GATEWAY_ADDR", "GIT_ADDR", "IDENTITY_ADDR", "MOCK_ADDR",
		"REGISTRY_ADDR", "TEMPORAL_ADDR", "TEMPORAL_UI_ADDR", "DEBUG_ADDR",
	} {
		if s.addr[variable], err = freeAddr(); err != nil {
			return nil, err
		}
	}

	return s, nil
}

func (s *server) url() string { return "http://" + s.addr["AGENT_ADDR"] }

// freeAddr gives a loopback address below the range that outgoing connections
// take their ports from.
func freeAddr() (string, error) {
	for range 100 {
		n, err := rand.Int(rand.Reader, big.NewInt(12_000))
		if err != nil {
			return "", err
		}

		addr := fmt.Sprintf("127.0.0.1:%d", 20_000+n.Int64())
		if listener, err := net.Listen("tcp", addr); err == nil {
			return addr, listener.Close()
		}
	}

	return "", errors.New("found no free port between 20000 and 32000")
}

// start starts the service and returns when it is ready.
func (s *server) start(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(s.dir, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()

	s.cmd = exec.Command(s.binary, "up")
	s.cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + os.TempDir(), "LOG_LEVEL=warn",
		"DATA_DIR=" + filepath.Join(s.dir, "data"), "CONNECTIONS_PER_ADDRESS=0",
		"BOOTSTRAP_API_KEY=" + s.key, "LLM_GATEWAY_URL=" + s.modelURL,
	}

	for _, variable := range []string{"GOGC", "GOMEMLIMIT", "CACHED_WORKFLOWS"} { // for trials
		if value, set := os.LookupEnv(variable); set {
			s.cmd.Env = append(s.cmd.Env, variable+"="+value)
		}
	}

	for variable, addr := range s.addr {
		s.cmd.Env = append(s.cmd.Env, variable+"="+addr)
	}

	s.cmd.Stdout, s.cmd.Stderr = log, log

	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := s.cmd.Start(); err != nil {
		return err
	}

	s.exited = make(chan error, 1)
	go func(cmd *exec.Cmd, exited chan<- error) { exited <- cmd.Wait() }(s.cmd, s.exited)

	return s.untilReady(ctx)
}

func (s *server) untilReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()

	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()

	for {
		select {
		case err := <-s.exited:
			s.cmd = nil
			return fmt.Errorf("the service ended before it was ready: %w\n%s", err, s.log())
		case <-ctx.Done():
			return fmt.Errorf("the service is not ready: %w\n%s", ctx.Err(), s.log())
		case <-poll.C:
			if response, err := http.Get(s.url() + "/readyz"); err == nil {
				response.Body.Close()

				if response.StatusCode == http.StatusOK {
					return nil
				}
			}
		}
	}
}

// log gives the end of what the service wrote.
func (s *server) log() string {
	text, _ := os.ReadFile(filepath.Join(s.dir, "server.log"))
	return string(text[max(0, len(text)-4000):])
}

// stop ends the service in order, and by force when it does not end.
func (s *server) stop() error {
	if s.cmd == nil {
		return nil
	}

	process := s.cmd.Process
	s.cmd = nil
	_ = process.Signal(syscall.SIGTERM) // it may have ended already

	select {
	case err := <-s.exited:
		if err != nil {
			return fmt.Errorf("the service ended with %w\n%s", err, s.log())
		}

		return nil
	case <-time.After(40 * time.Second):
		_ = process.Kill()

		<-s.exited //nolint:errcheck // killed; the error below says why

		return errors.New("the service did not end within 40 s of SIGTERM")
	}
}
