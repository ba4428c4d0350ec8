// Command everloop is the one binary of Everloop: each role is a command of it.
// This package parses flags, reads the environment and wires parts together; it
// decides nothing else.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"
)

// version is the release, by calendar: year and month, then a counter. The build
// overwrites it with -ldflags "-X main.version=…".
var version = "2611.0.0"

// commands is the command line. A new command is a struct of its own, in a file of
// its own, with a Run method that ends when its context does.
type commands struct {
	Log logFlags `embed:"" prefix:"log-"`

	Up       upCmd       `cmd:"" help:"Start everything on this machine: engines, API, worker and mock service."`
	Api      apiCmd      `cmd:"" help:"Serve the agent's API alone."`
	Worker   workerCmd   `cmd:"" help:"Carry out chats alone."`
	Mock     mockCmd     `cmd:"" help:"Serve the mock service alone."`
	Migrate  migrateCmd  `cmd:"" help:"Bring the database up to date."`
	Temporal temporalCmd `cmd:"" help:"Serve Temporal with its web UI alone, on a PostgreSQL server."`
	Engines  enginesCmd  `cmd:"" help:"Start the embedded engines alone, for tests and development."`
	Chat     chatCmd     `cmd:"" help:"Talk to a running service from the terminal."`
	Doctor   doctorCmd   `cmd:"" help:"Check what a start needs, and say what to mend."`
	Version  versionCmd  `cmd:"" help:"Print the version."`
}

func main() {
	// The first signal asks every command to end in order; the second one, no longer
	// caught, ends the process.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	// Memory is plenty where this runs, and a step of a chat makes much garbage:
	// collecting it half as often saves much of the work. GOGC, when
	// it is set, has the last word.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200)
		debug.SetMemoryLimit(1 << 30)
	}

	var cli commands
	parsed := kong.Parse(&cli,
		kong.Name("everloop"),
		kong.Description("Everloop, a durable agent service."),
		kong.ShortUsageOnError(),
		kong.BindTo(ctx, (*context.Context)(nil)),
	)
	slog.SetDefault(cli.Log.logger())
	parsed.FatalIfErrorf(parsed.Run())
}

// logFlags choose how this process logs. Logs go to standard error.
type logFlags struct {
	Level  string `enum:"debug,info,warn,error" default:"info" env:"LOG_LEVEL" help:"Least level to log: ${enum}."`
	Format string `enum:"text,json" default:"text" env:"LOG_FORMAT" help:"Form of log lines: ${enum}."`
}

func (f logFlags) logger() *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(f.Level)) // the flag's enum holds only valid names
	options := &slog.HandlerOptions{Level: level}
	if f.Format == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, options))
}

// versionCmd prints the version.
type versionCmd struct{}

// Run implements the command.
func (versionCmd) Run() error {
	_, err := fmt.Println(version)
	return err
}
