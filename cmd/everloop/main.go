// Command everloop is the only binary of Everloop: each role is a command of it. This package
// parses flags and environment variables; internal/app wires the roles and runs them.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"

	"everloop/internal/app"
	"everloop/internal/memlimit"
	"everloop/internal/release"
	"everloop/internal/sbom"
)

// commands is the command line. A role is a struct of internal/app, whose fields are
// flags and whose Run method ends when its context does.
type commands struct {
	Log logFlags `embed:"" prefix:"log-"`

	Up       app.Up       `cmd:"" help:"Start everything on this machine: engines, API, worker, companions and desktop."`
	Api      app.API      `cmd:"" help:"Run the API server."`
	Worker   app.Worker   `cmd:"" help:"Run a worker, which carries out chats."`
	Identity app.Identity `cmd:"" help:"Run the identity service."`
	Gateway  app.Gateway  `cmd:"" help:"Run the model gateway."`
	Registry app.Registry `cmd:"" help:"Run the skill registry."`
	Desktop  app.Desktop  `cmd:"" help:"Run the desktop, the front end for people."`
	Git      app.Git      `cmd:"" aliases:"githost" help:"Run git hosting."`
	Mock     app.Mock     `cmd:"" help:"Run the mock service."`
	Migrate  app.Migrate  `cmd:"" help:"Migrate the database to this version."`
	Temporal app.Temporal `cmd:"" help:"Run Temporal with its web UI, on a PostgreSQL server."`
	Deploy   app.Deploy   `cmd:"" help:"Show and choose the build of the workers that gets new runs."`
	Backup   app.Backup   `cmd:"" help:"Write the state of a deployment into one file, while it runs."`
	Restore  app.Restore  `cmd:"" help:"Restore a backup into an empty place."`
	Engines  app.Engines  `cmd:"" help:"Run the embedded engines alone, for tests and development."`
	Chat     chatCmd      `cmd:"" help:"Chat with a running service from the terminal."`
	Check    app.Check    `cmd:"" help:"Request the health of every component of a deployment, in the order in which they start."`
	Doctor   app.Doctor   `cmd:"" help:"Check the environment and suggest fixes."`
	Openapi  app.OpenAPI  `cmd:"" help:"Print the OpenAPI 3.1 document of the REST interface."`
	Version  versionCmd   `cmd:"" help:"Print the version."`
}

func main() {
	// The first signal ends every command gracefully; the second one is no longer caught and
	// ends the process.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	context.AfterFunc(ctx, stop)

	_, unread := memlimit.Set()

	var cli commands

	parsed := kong.Parse(&cli,
		kong.Name("everloop"),
		kong.Description("Everloop, a durable agent service."),
		kong.ShortUsageOnError(),
		kong.BindTo(ctx, (*context.Context)(nil)),
	)
	slog.SetDefault(cli.Log.logger())

	if unread != nil {
		slog.Warn("failed to read the memory limit; using what is known", "error", unread)
	}

	parsed.FatalIfErrorf(parsed.Run())
}

// logFlags configure the logs of this process. Logs are written to standard error.
type logFlags struct {
	Level  string `enum:"debug,info,warn,error" default:"info" env:"LOG_LEVEL" help:"Minimum log level: ${enum}."`
	Format string `enum:"text,json" default:"text" env:"LOG_FORMAT" help:"Log format: ${enum}."`
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
type versionCmd struct {
	SBOM bool `name:"sbom" help:"Print the modules that the program is made of, as CycloneDX JSON."`
}

// Run implements the command.
func (c versionCmd) Run() error {
	if c.SBOM {
		build, ok := debug.ReadBuildInfo()
		if !ok {
			return errors.New("the program was built without a list of its modules")
		}

		return sbom.Write(os.Stdout, "everloop", release.Version, build)
	}

	_, err := fmt.Println(release.Version)

	return err
}
