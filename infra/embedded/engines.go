// Package embedded runs the engines that Everloop stands on (PostgreSQL, Temporal
// with its web UI, NATS JetStream and an S3 server) inside or below this process,
// so that one command needs no container engine and no account anywhere.
//
// It is for wiring only: it hands out addresses and credentials, and everything
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
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Listen is a configured listen address together with the name of the setting it
// came from, so that an address already taken can be reported as one clear error.
type Listen struct {
	Addr     string // host:port; port 0 takes a random free one
	Variable string // the environment variable to change, such as TEMPORAL_ADDR
}

// Config says which engines to start and where. A nil part is not started: the
// deployment uses an external one.
type Config struct {
	// Dir is DATA_DIR. It is made when absent, and locked: one process a directory.
	Dir string
	// Logger gets the engines' own warnings and errors. Nil means slog.Default().
	Logger *slog.Logger
	// Progress, when set, is told about every change of an engine: part is
	// "postgres", "temporal", "temporal-ui", "events" or "objects"; state is
	// "starting", "ready" or "stopped". Calls never overlap.
	Progress func(part, state string)

	Postgres *PostgresConfig
	Temporal *TemporalConfig
	UI       *TemporalUIConfig // needs Temporal
	Events   *EventsConfig
	Objects  *ObjectsConfig
}

// Engines holds what [Start] started; a part that was not asked for is nil.
type Engines struct {
	Postgres *Postgres
	Temporal *Temporal
	UI       *TemporalUI
	Events   *Events
	Objects  *Objects

	lock     *dirLock
	dead     chan error
	stopping chan struct{}
	stopOnce sync.Once
	stopErr  error
	report   func(part, state string)
}

// Start locks cfg.Dir and brings up the engines: PostgreSQL first, because Temporal
// keeps its state there, then the rest side by side. When one fails, those already
// running are stopped again and the first fault is returned.
func Start(ctx context.Context, cfg Config) (*Engines, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.UI != nil && cfg.Temporal == nil {
		return nil, errors.New("the Temporal UI needs the embedded Temporal server")
	}
	if cfg.Temporal != nil && cfg.Postgres == nil && cfg.Temporal.DatabaseURL == "" {
		return nil, errors.New("the embedded Temporal server needs a PostgreSQL server")
	}
	// Ports first: a fault that the operator can mend at once must not cost a start.
	if err := cfg.checkAddresses(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("resolve data directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
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
	if err := e.startAll(ctx, dir, cfg); err != nil {
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
	var listens []Listen
	if cfg.Temporal != nil {
		listens = append(listens, cfg.Temporal.Frontend)
	}
	if cfg.UI != nil {
		listens = append(listens, cfg.UI.Listen)
	}
	if cfg.Events != nil && cfg.Events.Listen.Addr != "" {
		listens = append(listens, cfg.Events.Listen)
	}
	if cfg.Objects != nil && cfg.Objects.Listen.Addr != "" {
		listens = append(listens, cfg.Objects.Listen)
	}
	var faults []error
	for _, l := range listens {
		faults = append(faults, l.probe())
	}
	return errors.Join(faults...)
}

func (e *Engines) startAll(ctx context.Context, dir string, cfg Config) error {
	if cfg.Postgres != nil {
		e.report("postgres", "starting")
		pg, err := StartPostgres(ctx, filepath.Join(dir, "postgres"), *cfg.Postgres, cfg.Logger)
		if err != nil {
			return fmt.Errorf("start PostgreSQL: %w", err)
		}
		e.Postgres = pg
		e.watch("PostgreSQL", pg.Done(), pg.Err)
		e.report("postgres", "ready")
	}

	group, ctx := errgroup.WithContext(ctx)
	if cfg.Temporal != nil {
		group.Go(func() error { return e.startTemporal(ctx, cfg) })
	}
	if cfg.Events != nil {
		group.Go(func() error {
			e.report("events", "starting")
			ev, err := StartEvents(filepath.Join(dir, "events"), *cfg.Events, cfg.Logger)
			if err != nil {
				return fmt.Errorf("start event log: %w", err)
			}
			e.Events = ev
			e.report("events", "ready")
			return nil
		})
	}
	if cfg.Objects != nil {
		group.Go(func() error {
			e.report("objects", "starting")
			ob, err := StartObjects(ctx, filepath.Join(dir, "objects"), *cfg.Objects, cfg.Logger)
			if err != nil {
				return fmt.Errorf("start object store: %w", err)
			}
			e.Objects = ob
			e.watch("object store", ob.Done(), ob.Err)
			e.report("objects", "ready")
			return nil
		})
	}
	return group.Wait()
}

func (e *Engines) startTemporal(ctx context.Context, cfg Config) error {
	e.report("temporal", "starting")
	tc := *cfg.Temporal
	if tc.DatabaseURL == "" {
		tc.DatabaseURL = e.Postgres.URL("postgres")
	} else {
		tc.external = true
	}
	ts, err := StartTemporal(ctx, tc, cfg.Logger)
	if err != nil {
		return fmt.Errorf("start Temporal: %w", err)
	}
	e.Temporal = ts
	e.watch("Temporal", ts.Done(), ts.Err)
	e.report("temporal", "ready")

	if cfg.UI == nil {
		return nil
	}
	e.report("temporal-ui", "starting")
	ui, err := StartTemporalUI(ctx, *cfg.UI, ts.Address())
	if err != nil {
		return fmt.Errorf("start Temporal UI: %w", err)
	}
	e.UI = ui
	e.report("temporal-ui", "ready")
	return nil
}

// watch reports the end of an engine on Dead, unless it was asked to stop.
func (e *Engines) watch(name string, done <-chan struct{}, cause func() error) {
	go func() {
		select {
		case <-e.stopping:
		case <-done:
			select {
			case <-e.stopping:
			case e.dead <- fmt.Errorf("%s ended by itself: %w", name, cause()):
			default: // an earlier death is being reported already
			}
		}
	}()
}

// Dead yields one error when an engine ends that nobody asked to end. The process
// cannot go on without it: stop and exit.
func (e *Engines) Dead() <-chan error { return e.dead }

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
	var faults []error
	if e.UI != nil { // before the server it calls, or it complains
		e.UI.Stop()
		e.report("temporal-ui", "stopped")
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	stop := func(part string, f func() error) {
		group.Go(func() {
			err := f()
			mu.Lock()
			faults = append(faults, err)
			mu.Unlock()
			e.report(part, "stopped")
		})
	}
	if e.Temporal != nil {
		stop("temporal", func() error { return e.Temporal.Stop(ctx) })
	}
	if e.Events != nil {
		stop("events", func() error { e.Events.Stop(); return nil })
	}
	if e.Objects != nil {
		stop("objects", func() error { return e.Objects.Stop(ctx) })
	}
	group.Wait()
	if e.Postgres != nil {
		faults = append(faults, e.Postgres.Stop(ctx))
		e.report("postgres", "stopped")
	}
	faults = append(faults, e.lock.release())
	return errors.Join(faults...)
}

// serialProgress makes a callback safe to call from several goroutines.
func serialProgress(progress func(part, state string)) func(part, state string) {
	if progress == nil {
		return func(string, string) {}
	}
	var mu sync.Mutex
	return func(part, state string) {
		mu.Lock()
		defer mu.Unlock()
		progress(part, state)
	}
}
