// Command bench measures Everloop as a client meets it. It starts its own
// `everloop up` beside a scripted model that answers at once, and drives it over
// HTTP; each measurement has a bare baseline in the same run, so that numbers of
// a busy machine can still be compared. What the numbers mean and what they were
// is described in docs/performance.md. What all of them share is in packages below it.
//
// It knows the public interface only, nothing of how the service is built, except
// that it reads the CPU and memory of its processes from /proc (Linux).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"everloop/bench/result"
	"everloop/bench/target"
)

// options are the command line.
type options struct {
	binary   string
	parts    []string
	json     string
	sessions int
	chats    int
	tasks    int
	commands int
	dormant  int
	heap     string
}

// part is one measurement with a service of its own.
type part struct {
	name  string
	about string
	run   func(ctx context.Context, b *bench) error
}

var parts = []part{
	{"idle", "start, memory and CPU of a service without work", measureIdle},
	{"first-token", "a message until its first text at the client", measureFirstToken},
	{"step", "one step of a loop of 50 commands", measureStep},
	{"relay", "2,000 tokens at full speed", measureRelay},
	{"stop", "a stop in a stream and in a command", measureStop},
	{"many", "100 sessions of 10 steps at once", measureMany},
	{"floor", "a step beside the same loop written with the Temporal SDK alone", measureFloor},
	{"plateau", "memory and time of a chat after thousands of chats", measurePlateau},
	{"schedules", "scheduled tasks that are due at the same time", measureSchedules},
	{"dag", "a DAG of 200 nodes that do nothing, and one of commands side by side", measureDAG},
	{"desktop", "the desktop in a browser", measureDesktop},
	{"dormant", "schedules that are not due, and runs that wait", measureDormant},
}

func main() {
	if address := os.Getenv(floorEnv); address != "" {
		if err := serveFloor(address); err != nil {
			fmt.Fprintln(os.Stderr, "bench: the floor:", err)
			os.Exit(1)
		}

		return
	}

	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	opts, err := parseOptions()
	if err != nil {
		return err
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	report := result.New()
	fmt.Println(report.Machine)

	var failed error

	for _, p := range parts {
		if !slices.Contains(opts.parts, p.name) {
			continue
		}

		fmt.Printf("\n%s: %s\n", p.name, p.about)

		if err := runPart(ctx, opts, p, report); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", p.name, err))
			fmt.Println("  FAILED:", err)
		}

		if ctx.Err() != nil {
			break
		}
	}

	report.Summary()

	if opts.json != "" {
		failed = errors.Join(failed, report.Save(opts.json))
	}

	return failed
}

func parseOptions() (options, error) {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}

	var o options

	chosen := flag.String("run", strings.Join(names, ","), "parts to run, separated by commas")

	flag.StringVar(&o.binary, "bin", "../bin/everloop", "the program to measure")
	flag.StringVar(&o.json, "json", "", "file for all numbers as JSON")
	flag.IntVar(&o.sessions, "sessions", 100, "sessions at once in part many")
	flag.IntVar(&o.chats, "chats", 6000, "chats in part plateau")
	flag.IntVar(&o.tasks, "tasks", 1000, "scheduled tasks that are due at once in part schedules")
	flag.IntVar(&o.commands, "commands", 198, "nodes that run a command in part dag, at most 198")
	flag.IntVar(&o.dormant, "dormant", 10_000, "schedules, and runs that wait, in part dormant")
	flag.StringVar(&o.heap, "heap", "", "file for a heap profile of the service at the end of part plateau")
	flag.Parse()

	for name := range strings.SplitSeq(*chosen, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(names, name) {
			return o, fmt.Errorf("there is no part %q; parts are %s", name, strings.Join(names, ", "))
		}

		o.parts = append(o.parts, name)
	}

	if min(o.sessions, o.chats, o.tasks, o.commands, o.dormant) < 1 {
		return o, errors.New("-sessions, -chats, -tasks, -commands and -dormant must be at least 1")
	}

	if _, err := os.Stat(o.binary); err != nil {
		return o, fmt.Errorf("%w (make build builds it; -bin names another)", err)
	}

	return o, nil
}

// bench is what a part measures with.
type bench struct {
	options
	report *result.Report
	part   string
	model  *target.Model
	bare   *bare
	// server is the service under test. Part idle starts and stops it itself.
	server *target.Server
	client *target.Client
}

func runPart(ctx context.Context, opts options, p part, report *result.Report) (err error) {
	dir, err := os.MkdirTemp("", "everloop-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	model, err := target.StartModel()
	if err != nil {
		return err
	}
	defer model.Close()

	b := &bench{options: opts, report: report, part: p.name, model: model, bare: newBare(model.URL, dir)}
	if b.server, err = target.NewServer(opts.binary, dir, model.URL); err != nil {
		return err
	}

	b.client = target.NewClient(b.server.URL(), b.server.Key)
	defer func() { err = errors.Join(err, b.server.Stop()) }()

	if p.name != "idle" {
		if err := b.server.Start(ctx); err != nil {
			return err
		}

		if err := b.warm(ctx); err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
	}

	return p.run(ctx, b)
}

// warm makes first-time costs happen before anything is measured.
func (b *bench) warm(ctx context.Context) error {
	for range 5 {
		if _, err := b.chatInNew(ctx, target.LoopScript(3)); err != nil {
			return err
		}

		if _, err := b.bare.conversation().chat(ctx, target.LoopScript(3), nil); err != nil {
			return err
		}
	}

	b.model.Take()

	return nil
}

// chatInNew runs one chat in a new session.
func (b *bench) chatInNew(ctx context.Context, message string) (*target.Chat, error) {
	session, err := b.client.CreateSession(ctx)
	if err != nil {
		return nil, err
	}

	return b.client.Completed(ctx, session, message)
}
