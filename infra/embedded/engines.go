// Package embedded runs the engines of Everloop (PostgreSQL, Temporal with its web UI, NATS
// JetStream and an S3 server) inside this process or as its children, so that one command needs
// no container engine and no cloud account.
//
// It returns addresses and credentials only; all other code uses the engines through the clients
// of external engines. It must not depend on sessions, chats or other types of the domain.
//
// Starting the object store changes the working directory of the process, because the gateway
// resolves every key against it. Make all paths of the process absolute before [Start], and do
// not change the directory afterwards.
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

// Listen is a configured listen address together with the name of its setting, which is named in
// the error for an occupied address.
type Listen struct {
	Addr     string // host:port; port 0: a random free port
	Variable string // the environment variable to change, such as TEMPORAL_ADDR
}

// Engine is the configuration of one engine, which Start runs. Each engine has a file with its
// configuration, start and stop; no other file names the engine.
type Engine interface {
	// name is the engine's short name, such as "nats": see Config.Progress.
	name() string
	// title is its name in errors.
	title() string
	// listens are the configured addresses, which are probed before anything starts.
	listens() []Listen
	// after names the engines that must be ready before this one starts and are stopped after it.
	// Engines that the same Start does not start are ignored.
	after() []string
	// start returns when the engine is usable. dir is DATA_DIR; others contains the engines that
	// are ready.
	start(ctx context.Context, dir string, others *Engines, logger *slog.Logger) (Running, error)
}

// Running is a running engine of this process.
type Running interface {
	// Done is closed when the engine has ended unexpectedly; nil: never.
	Done() <-chan struct{}
	// Err returns the reason; valid once Done is closed.
	Err() error
	Stop(ctx context.Context) error
}

// Config lists the engines to start and their directory.
type Config struct {
	// Dir is DATA_DIR. It is created when missing, and locked: one process per directory.
	Dir string
	// Logger receives the engines' warnings and errors. Nil: slog.Default().
	Logger *slog.Logger
	// Progress, if set, is called with every change of an engine: name is "postgres", "temporal",
	// "temporal-ui", "nats" or "objects"; state is "starting", "ready" or "stopped". Calls are
	// sequential.
	Progress func(name, state string)
	// Engines are the engines to start; the others are external.
	Engines []Engine
}

// Engines are the running engines of [Start].
type Engines struct {
	parts    []*part
	lock     *dirLock
	dead     chan error
	stopping chan struct{}
	stopOnce sync.Once
	stopErr  error
	report   func(name, state string)
}

// part is the state of one engine.
type part struct {
	Engine
	running Running       // valid once ready is closed
	ready   chan struct{} // closed when the engine is usable
	stopped chan struct{} // closed when it was stopped, or did not start
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

// Of returns the engine of one type, such as *Postgres; nil: not started.
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

// Start locks cfg.Dir and starts the engines concurrently, each after its dependencies. When one
// fails, the running engines are stopped and the first error is returned.
func Start(ctx context.Context, cfg Config) (*Engines, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	// Check the ports first: an occupied one must be reported without the delay of a start.
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
		// The caller's context may be cancelled; the clean-up has its own deadline.
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()

		_ = e.Stop(cleanup)

		return nil, err
	}

	return e, nil
}

// checkAddresses returns an error with the setting of an invalid or occupied address.
func (cfg *Config) checkAddresses() error {
	var faults []error

	for _, engine := range cfg.Engines {
		for _, l := range engine.listens() {
			faults = append(faults, l.probe())
		}
	}

	return errors.Join(faults...)
}

// startAll starts each engine in a goroutine, which waits for the engine's dependencies.
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
			close(p.ready) // unblocks dependent engines

			return nil
		})
	}

	return group.Wait()
}

// watch reports the unexpected end of an engine on Dead.
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
			default: // an earlier error is already pending
			}
		}
	}()
}

// Dead returns a channel that receives an error when an engine ends unexpectedly. The process
// cannot continue without it: stop and exit.
func (e *Engines) Dead() <-chan error { return e.dead }

// Wait returns the error of an engine that ends unexpectedly; nil: ctx was cancelled.
func (e *Engines) Wait(ctx context.Context) error {
	select {
	case err := <-e.dead:
		return err
	case <-ctx.Done():
		return nil
	}
}

// Stop stops the engines in reverse dependency order and releases the lock of the directory. It
// is idempotent: later calls return the first result.
func (e *Engines) Stop(ctx context.Context) error {
	e.stopOnce.Do(func() {
		close(e.stopping)
		e.stopErr = e.stopAll(ctx)
	})

	return e.stopErr
}

// stopAll stops the engines in reverse order and joins their errors.
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

// serialProgress returns a callback that is safe for concurrent use.
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

// makePrivate creates a directory with mode 0711: other users can traverse it, but not list it.
// An existing directory owned by the service loses all other permission bits.
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
