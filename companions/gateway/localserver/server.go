package localserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// State is the state of a server.
type State string

// States of a server.
const (
	Starting State = "starting" // waits for the previous server to end, or its process does not respond yet
	Loading  State = "loading"  // its process loads the model
	Ready    State = "ready"
	Failed   State = "failed" // its process ended, or did not start; it is restarted after a pause
	Ended    State = "ended"
)

// timing of a server; tests have others.
type timing struct {
	firstPause, lastPause time.Duration // between an end and the next start
	steady                time.Duration // ready time after which failures are reset
	poll                  time.Duration // between two health checks of a loading server
	grace                 time.Duration // between SIGTERM and SIGKILL
}

var usual = timing{
	firstPause: time.Second, lastPause: time.Minute, steady: time.Minute,
	poll: 200 * time.Millisecond, grace: 5 * time.Second,
}

const (
	lookTimeout  = 5 * time.Second // of one request for the health
	startTimeout = 10 * time.Minute
	loggedLines  = 10 // of the output, in the log of a failure
)

// Status is a snapshot of a server's state.
type Status struct {
	State    State
	Restarts int       // starts after the first
	Fault    string    // the last failure; empty while it is ready
	Next     time.Time // of the next start, in the state Failed
	Output   []string  // last lines of output, of the previous process as long as there are none
}

// Server is a supervised process.
type Server struct {
	cfg    Config
	key    string
	log    *slog.Logger
	ready  func()
	timing timing
	client *http.Client

	ctx  context.Context // ends the server
	end  context.CancelFunc
	once sync.Once     // run once, or stopped before
	done chan struct{} // closed when its process has ended permanently

	mu     sync.Mutex
	status Status
	output *output // of the newest process
	port   int
}

// New returns a new server that does not run yet. ready is called whenever its model is loaded.
func New(cfg Config, log *slog.Logger, ready func()) *Server {
	s := &Server{
		cfg: cfg, key: rand.Text(), log: discard(log).With("source", cfg.Name), ready: ready, timing: usual,
		done: make(chan struct{}), status: Status{State: Starting},
		client: &http.Client{
			Timeout:       lookTimeout,
			Transport:     &http.Transport{DisableKeepAlives: true}, // no proxy
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if s.cfg.StartTimeout <= 0 {
		s.cfg.StartTimeout = startTimeout
	}

	s.output = &output{secret: s.key}
	s.ctx, s.end = context.WithCancel(context.Background())

	return s
}

// Key is the key of the server. It is generated for each Server and stored nowhere else.
func (s *Server) Key() string { return s.key }

// Config returns the configuration of the server, with defaults.
func (s *Server) Config() Config { return s.cfg }

// Start runs the server until Stop, after the given servers have ended, whose memory it may
// need.
func (s *Server) Start(before ...<-chan struct{}) {
	s.once.Do(func() { go s.run(before) })
}

// Stop ends the server; Done is closed when it has ended.
func (s *Server) Stop() {
	s.end()
	s.once.Do(func() { // it never ran
		s.set(func(now *Status) { now.State = Ended })
		close(s.done)
	})
}

// Done is closed when the server has ended after Stop.
func (s *Server) Done() <-chan struct{} { return s.done }

// URL returns the address of the server, while it is ready.
func (s *Server) URL() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.status.State != Ready {
		return "", errors.New(s.status.Words())
	}

	return address(s.port), nil
}

func address(port int) string { return "http://" + net.JoinHostPort(loopback, strconv.Itoa(port)) }

// Status returns the state of the server.
func (s *Server) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()

	now := s.status
	if lines := s.output.last(); len(lines) > 0 || now.Output == nil {
		now.Output = lines
	}

	return now
}

// Words describes why the server takes no requests; empty when it does.
func (s Status) Words() string {
	switch s.State {
	case Starting:
		return "the server is starting"
	case Loading:
		return "the server is loading the model"
	case Failed:
		return "the server has failed: " + s.Fault
	case Ended:
		return "the server was stopped"
	case Ready:
	}

	return ""
}

func (s *Server) set(change func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()

	change(&s.status)
}

// run starts the process repeatedly until the server is stopped.
func (s *Server) run(before []<-chan struct{}) {
	defer close(s.done)
	defer s.set(func(now *Status) { now.State, now.Fault = Ended, "" })

	for _, other := range before {
		select {
		case <-other:
		case <-s.ctx.Done():
			return
		}
	}

	pause := time.Duration(0)

	for {
		readyFor, err := s.serve()
		if s.ctx.Err() != nil {
			return
		}

		pause = s.timing.next(pause, readyFor)
		s.failed(err, pause)

		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-s.ctx.Done():
			timer.Stop()
			return
		}

		s.set(func(now *Status) { now.State, now.Next, now.Restarts = Starting, time.Time{}, now.Restarts+1 })
	}
}

// next returns the pause before the next start.
func (t timing) next(before, readyFor time.Duration) time.Duration {
	if readyFor >= t.steady {
		before = 0
	}

	return min(max(2*before, t.firstPause), t.lastPause)
}

func (s *Server) failed(err error, pause time.Duration) {
	var lines []string

	s.set(func(now *Status) {
		now.State, now.Fault, now.Next = Failed, s.output.clean(err.Error()), time.Now().Add(pause)
		lines = s.output.last()
		now.Output = lines
	})
	s.log.Error("failed to run a model server", "error", s.output.clean(err.Error()), "next_start_in", pause,
		"output", lines[max(0, len(lines)-loggedLines):])
}

// serve runs the process once, and returns how long it was ready.
func (s *Server) serve() (readyFor time.Duration, err error) {
	p, port, err := s.launch()
	if err != nil {
		return 0, err
	}

	began := time.Now()

	if err := s.load(p, port); err != nil {
		if p.stop(s.timing.grace) {
			s.log.Warn("killed a model server that did not end in time")
		}

		return 0, err
	}

	ready := time.Now()

	s.set(func(now *Status) { now.State, now.Fault, now.Output = Ready, "", nil })
	s.log.Info("model server is ready", "took", ready.Sub(began).Round(time.Millisecond))
	s.ready()

	select {
	case <-p.ended:
		err = p.err
	case <-s.ctx.Done():
		s.set(func(now *Status) { now.State = Ended })

		if p.stop(s.timing.grace) {
			s.log.Warn("killed a model server that did not end in time")
		}
	}

	return time.Since(ready), err
}

// errUnusable replaces such a fault for callers without a management key, because the fault's
// text contains file names. It is the last line of the output.
var errUnusable = errors.New("its program or its model file cannot be used")

func (s *Server) launch() (p *process, port int, err error) {
	out := &output{secret: s.key}

	port, err = freePort()
	if err != nil {
		return nil, 0, err
	}

	s.mu.Lock()
	s.output, s.port = out, port
	s.mu.Unlock()

	err = checkModel(s.cfg.ModelFile)
	program, missing := s.cfg.program()

	if err := errors.Join(err, missing); err != nil {
		fmt.Fprintln(out, err)
		return nil, 0, errUnusable
	}

	p, err = launch(program, s.cfg.arguments(port), environment(os.Environ(), s.key), out)
	if err != nil {
		fmt.Fprintln(out, err)
		return nil, 0, errUnusable
	}

	s.log.Info("started a model server", "program", program, "model_file", s.cfg.ModelFile, "pid", p.pid, "port", port)

	return p, port, nil
}

// load returns when the model is loaded.
func (s *Server) load(p *process, port int) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.StartTimeout)
	defer cancel()

	ticker := time.NewTicker(s.timing.poll)
	defer ticker.Stop()

	for {
		status, err := s.look(ctx, port)

		switch {
		case err == nil && status == http.StatusOK:
			if err := checkListener(port); err != nil {
				return err
			}

			select {
			case <-p.ended: // another program took the port and responded
				return p.err
			default:
				return nil
			}
		case err == nil && status == http.StatusServiceUnavailable:
			s.set(func(now *Status) { now.State = Loading })
		}

		select {
		case <-ticker.C:
		case <-p.ended:
			return p.err
		case <-ctx.Done():
			if s.ctx.Err() != nil {
				return s.ctx.Err()
			}

			return fmt.Errorf("the model was not loaded within %s", s.cfg.StartTimeout)
		}
	}
}

// look requests the health of the server. The request contains no key, because another program
// may respond.
func (s *Server) look(ctx context.Context, port int) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address(port)+"/health", nil)
	if err != nil {
		return 0, err
	}

	res, err := s.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()

	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<16)) // the status suffices

	return res.StatusCode, nil
}
