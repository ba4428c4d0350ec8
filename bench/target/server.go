// Package target is the service under test as a client meets it: one `everloop up` with the
// scripted model beside it, and clients of its REST and Socket.IO interfaces. It knows no
// measurement, and nothing of how the service is built.
package target

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
	"strings"
	"syscall"
	"time"
)

// Server is the service under test: one `everloop up` on a directory of its own.
type Server struct {
	binary, Dir, modelURL string
	Key                   string
	Addr                  map[string]string
	Cmd                   *exec.Cmd
	exited                chan error
}

// debugAddr names the address of the profiles in Server.Addr; it is a flag, the others are
// variables.
const debugAddr = "debug-addr"

// NewServer prepares a service on a directory, with free addresses.
func NewServer(binary, dir, modelURL string) (*Server, error) {
	path, err := filepath.Abs(binary)
	if err != nil {
		return nil, err
	}

	s := &Server{binary: path, Dir: dir, modelURL: modelURL, Key: "el_" + rand.Text() + rand.Text(), Addr: map[string]string{}}
	for _, variable := range []string{
		"AGENT_ADDR", "DESKTOP_ADDR", "GATEWAY_ADDR", "GIT_ADDR", "IDENTITY_ADDR", "MOCK_ADDR",
		"REGISTRY_ADDR", "TEMPORAL_ADDR", "TEMPORAL_UI_ADDR", debugAddr,
	} {
		if s.Addr[variable], err = freeAddr(); err != nil {
			return nil, err
		}
	}

	return s, nil
}

// URL is where the REST interface is.
func (s *Server) URL() string { return "http://" + s.Addr["AGENT_ADDR"] }

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

// Start starts the service and returns when it is ready.
func (s *Server) Start(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(s.Dir, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()

	s.Cmd = exec.Command(s.binary, "up", "--debug-addr="+s.Addr[debugAddr])
	s.Cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.Dir, "TMPDIR=" + os.TempDir(), "LOG_LEVEL=warn",
		"DATA_DIR=" + filepath.Join(s.Dir, "data"),
		"BOOTSTRAP_API_KEY=" + s.Key, "LLM_GATEWAY_URL=" + s.modelURL,
	}

	for _, variable := range []string{"GOGC", "GOMEMLIMIT"} { // for trials
		if value, set := os.LookupEnv(variable); set {
			s.Cmd.Env = append(s.Cmd.Env, variable+"="+value)
		}
	}

	for variable, addr := range s.Addr {
		if variable == debugAddr {
			continue
		}

		s.Cmd.Env = append(s.Cmd.Env, variable+"="+addr)
	}

	s.Cmd.Stdout, s.Cmd.Stderr = log, log

	s.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := s.Cmd.Start(); err != nil {
		return err
	}

	s.exited = make(chan error, 1)
	go func(cmd *exec.Cmd, exited chan<- error) { exited <- cmd.Wait() }(s.Cmd, s.exited)

	return s.untilReady(ctx)
}

func (s *Server) untilReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()

	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()

	for {
		select {
		case err := <-s.exited:
			s.Cmd = nil
			return fmt.Errorf("the service ended before it was ready: %w\n%s", err, s.log())
		case <-ctx.Done():
			return fmt.Errorf("the service is not ready: %w\n%s", ctx.Err(), s.log())
		case <-poll.C:
			if response, err := http.Get(s.URL() + "/readyz"); err == nil {
				response.Body.Close()

				if response.StatusCode == http.StatusOK {
					return nil
				}
			}
		}
	}
}

// log gives the end of what the service wrote.
func (s *Server) log() string {
	text, _ := os.ReadFile(filepath.Join(s.Dir, "server.log"))
	return string(text[max(0, len(text)-4000):])
}

// Stop ends the service in order, and by force when it does not end.
func (s *Server) Stop() error {
	if s.Cmd == nil {
		return nil
	}

	process := s.Cmd.Process
	s.Cmd = nil
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

// RecordsURL is where the embedded PostgreSQL of the service under test listens.
// Large accounts are put there by COPY, as no client would make them in seconds.
func (s *Server) RecordsURL() (string, error) {
	dir := filepath.Join(s.Dir, "data", "postgres")

	password, err := os.ReadFile(filepath.Join(dir, "password"))
	if err != nil {
		return "", err
	}

	pid, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		return "", err
	}

	lines := strings.Split(string(pid), "\n")
	if len(lines) < 4 {
		return "", fmt.Errorf("the pid file of PostgreSQL has %d lines", len(lines))
	}

	return fmt.Sprintf(
		"postgres://everloop:%s@127.0.0.1:%s/everloop?sslmode=disable",
		strings.TrimSpace(string(password)),
		strings.TrimSpace(lines[3]),
	), nil
}
