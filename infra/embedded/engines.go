// Package embedded runs the engines that Everloop stands on (PostgreSQL, Temporal
// with its web UI, NATS JetStream and an S3 server) inside or below this process,
// so that one command needs no container engine and no account anywhere.
//
// It is for wiring only: it returns addresses and credentials, and everything
// else reaches the engines through the same clients as it would external ones. It
// must not know sessions, chats or any other idea of the domain.
//
// Starting the object store changes the working directory of the process, because
// the gateway resolves every key against it. Make every path of the process
// absolute before [Start], and never change the directory afterwards.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// Listen is a configured listen address together with the name of the setting it
// came from, so that an address already taken can be reported as one clear error.
type Listen struct {
	Addr     string // host:port; port 0 takes a random free one
	Variable string // the environment variable to change, such as TEMPORAL_ADDR
}

// Engine is the configuration of one engine, which Start makes run. Its file has its
// configuration, its start and its stop; nothing else of this package names it.
type Engine interface {
	// name is the engine's short name, such as "nats": see Config.Progress.
	name() string
	// title is its name in errors.
	title() string
	// listens are the configured addresses, which are probed before anything starts.
	listens() []Listen
	// after names the engines that must be ready before this one starts and are stopped
	// after it. Those that the same Start does not start do not count.
	after() []string
	// start returns once the engine can be used. dir is DATA_DIR; others has the engines
	// that are ready.
	start(ctx context.Context, dir string, others *Engines, logger *slog.Logger) (Running, error)
}

// Running is an engine that runs in this process tree.
type Running interface {
	// Done is closed when the engine has ended by itself; nil when it never does.
	Done() <-chan struct{}
	// Err says why; valid once Done is closed.
	Err() error
	Stop(ctx context.Context) error
}

// Config says which engines to start and where.
type Config struct {
	// Dir is DATA_DIR. It is made when absent, and locked: one process a directory.
	Dir string
	// Logger gets the engines' own warnings and errors. Nil means slog.Default().
	Logger *slog.Logger
	// Progress, when set, is called with every change of an engine: name is "postgres",
	// "temporal", "temporal-ui", "nats" or "objects"; state is "starting", "ready" or
	// "stopped". Calls never overlap.
	Progress func(name, state string)
	// Engines are those to start; the deployment uses external ones for the others.
	Engines []Engine
}

// Engines holds what [Start] started.
type Engines struct {
	parts    []*part
	lock     *dirLock
	dead     chan error
	stopping chan struct{}
	stopOnce sync.Once
	stopErr  error
	report   func(name, state string)
}

// part is one engine of a Start.
type part struct {
	Engine
	running Running       // valid once ready is closed
	ready   chan struct{} // closed when the engine can be used
	stopped chan struct{} // closed when it was stopped, or never ran
}

// isReady reports whether the engine was started.
func (p *part) isReady() bool {
	select {
	case <-p.ready:
		return true
	default:
		return false
	}
}

// Of returns the engine of one type, such as *Postgres; nil when it was not started.
func Of[T Running](e *Engines) (found T) {
	for _, p := range e.parts {
		if !p.isReady() {
			continue
		}

		if running, ok := p.running.(T); ok {
			return running
		}
	}

	return found
}

// Start locks cfg.Dir and brings up the engines side by side, each after those that it
// needs. When one fails, those already running are stopped again and the first fault is
// returned.
func Start(ctx context.Context, cfg Config) (*Engines, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	// Ports first: a fault that the operator can fix at once must not cost a start.
	if err := cfg.checkAddresses(); err != nil {
		return nil, err
	}

	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("resolve data directory: %w", err)
	}

	if err := makePrivate(dir); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}

	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}

	e := &Engines{
		lock:     lock,
		dead:     make(chan error, 1),
		stopping: make(chan struct{}),
		report:   serialProgress(cfg.Progress),
	}
	for _, engine := range cfg.Engines {
		e.parts = append(e.parts, &part{Engine: engine, ready: make(chan struct{}), stopped: make(chan struct{})})
	}

	if err := e.startAll(ctx, dir, cfg.Logger); err != nil {
		// The caller's context may be the reason; give the clean-up its own time.
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()

		_ = e.Stop(cleanup)

		return nil, err
	}

	return e, nil
}

// checkAddresses refuses a malformed or occupied configured address by name.
func (cfg *Config) checkAddresses() error {
	var faults []error

	for _, engine := range cfg.Engines {
		for _, l := range engine.listens() {
			faults = append(faults, l.probe())
		}
	}

	return errors.Join(faults...)
}

func (e *Engines) startAll(ctx context.Context, dir string, logger *slog.Logger) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range e.parts {
		group.Go(func() error {
			for _, needed := range e.parts {
				if !slices.Contains(p.after(), needed.name()) {
					continue
				}

				select {
				case <-needed.ready:
				case <-ctx.Done():
					return ctx.Err()
				}
			}

			e.report(p.name(), "starting")

			running, err := p.start(ctx, dir, e, logger)
			if err != nil {
				return fmt.Errorf("start %s: %w", p.title(), err)
			}

			p.running = running
			e.watch(p.title(), running)
			e.report(p.name(), "ready")
			close(p.ready) // those that wait for it start now

			return nil
		})
	}

	return group.Wait()
}

// watch reports the end of an engine on Dead, unless it was asked to stop.
func (e *Engines) watch(title string, running Running) {
	if running.Done() == nil {
		return
	}

	go func() {
		select {
		case <-e.stopping:
		case <-running.Done():
			select {
			case <-e.stopping:
			case e.dead <- fmt.Errorf("%s ended by itself: %w", title, running.Err()):
			default: // an earlier death is being reported already
			}
		}
	}()
}

// Dead yields one error when an engine ends unexpectedly. The process
// cannot continue without it: stop and exit.
func (e *Engines) Dead() <-chan error { return e.dead }

// Wait returns the error of an engine that ends by itself; nil when ctx ends first.
func (e *Engines) Wait(ctx context.Context) error {
	select {
	case err := <-e.dead:
		return err
	case <-ctx.Done():
		return nil
	}
}

// Stop ends the engines in the reverse order of their needs and releases the lock
// of the directory. The first call does the work; later ones return its result.
func (e *Engines) Stop(ctx context.Context) error {
	e.stopOnce.Do(func() {
		close(e.stopping)
		e.stopErr = e.stopAll(ctx)
	})

	return e.stopErr
}

func (e *Engines) stopAll(ctx context.Context) error {
	var group sync.WaitGroup

	faults := make([]error, len(e.parts))
	for i, p := range e.parts {
		group.Go(func() {
			defer close(p.stopped)

			if !p.isReady() {
				return
			}

			for _, dependent := range e.parts {
				if slices.Contains(dependent.after(), p.name()) {
					<-dependent.stopped
				}
			}

			if err := p.running.Stop(ctx); err != nil {
				faults[i] = fmt.Errorf("stop %s: %w", p.title(), err)
			}

			e.report(p.name(), "stopped")
		})
	}

	group.Wait()

	return errors.Join(append(faults, e.lock.release())...)
}

// serialProgress makes a callback safe to call from several goroutines.
func serialProgress(progress func(name, state string)) func(name, state string) {
	if progress == nil {
		return func(string, string) {}
	}

	var mu sync.Mutex

	return func(name, state string) {
		mu.Lock()
		defer mu.Unlock()

		progress(name, state)
	}
}

// makePrivate makes a directory in which other users of the machine can pass, to what
// is theirs, and see nothing. One that exists becomes so if it belongs to the service.
func makePrivate(dir string) error {
	const passOnly = 0o711
	if err := os.MkdirAll(dir, passOnly); err != nil {
		return err
	}

	info, err := os.Stat(dir)
	if err != nil {
		return err
	}

	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) != os.Geteuid() || info.Mode().Perm()&^passOnly == 0 {
		return nil
	}

	return os.Chmod(dir, info.Mode().Perm()&passOnly)
}
