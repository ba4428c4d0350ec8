package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"everloop/infra/embedded"
	"everloop/infra/external"
	"everloop/infra/metrics"
	"everloop/infra/postgres"
	"everloop/internal/app/flags"
	"everloop/terminal/doctor"
)

// PostgresSettings say where the database is. The URL says by itself how TLS is used.
type PostgresSettings struct {
	DatabaseURL string `env:"DATABASE_URL" help:"PostgreSQL 15 or newer; embedded when unset."`
}

// postgresClients are this process's connections to the database.
type postgresClients struct {
	DB *postgres.DB
}

// The connections of one process to the database, opened as they are needed.
const (
	sharedConns = 12
	stepConns   = 16
	leaseConns  = 2
)

// Engine is PostgreSQL with these settings.
func (s *PostgresSettings) Engine() Engine {
	return Engine{
		Name: "postgres", Label: "PostgreSQL", Title: "Database (PostgreSQL)", Variable: "DATABASE_URL", secret: true,
		Hint:    "Check that PostgreSQL runs and that DATABASE_URL is right.",
		Address: func() string { return s.DatabaseURL },
		options: func(flags.Keys, string) error { return s.Check() },
		Embed: func(how Embedding) []embedded.Engine {
			return []embedded.Engine{embedded.PostgresConfig{BinDir: how.PostgresBinDir}}
		},
		Adopt: func(engines *embedded.Engines) {
			if server := embedded.Of[*embedded.Postgres](engines); server != nil {
				s.DatabaseURL = server.URL("everloop")
			}
		},
		reach: func(engines *embedded.Engines, _ Embedding) map[string]string {
			server := embedded.Of[*embedded.Postgres](engines)
			if server == nil {
				return nil
			}

			return map[string]string{
				"postgres_url":           server.URL("everloop"),
				"postgres_superuser_url": server.SuperuserURL("everloop"), // for tests that create databases
			}
		},
		open: s.open,
		check: func(ctx context.Context, c *Clients) (string, error) {
			began := time.Now()
			err := c.DB.Ping(ctx)

			return fmt.Sprintf("answers in %d ms", time.Since(began).Milliseconds()), err
		},
		probe: func(ctx context.Context) []doctor.Check {
			server, clock := external.ProbePostgres(ctx, s.DatabaseURL)

			checks := []doctor.Check{doctor.CheckOf("PostgreSQL", server)}
			if clock != nil {
				checks = append(checks, doctor.CheckOf("database clock", *clock))
			}

			return checks
		},
		needs: func(ctx context.Context, dataDir string, how Embedding) []doctor.Check {
			return doctor.EmbeddedPostgres(ctx, dataDir, how.PostgresBinDir)
		},
	}
}

// Check finds the faults of the settings.
func (s *PostgresSettings) Check() error {
	if s.DatabaseURL == "" {
		return nil
	}

	return CheckDatabaseURL(s.DatabaseURL)
}

// open brings the database up to date and connects to it.
func (s *PostgresSettings) open(ctx context.Context, c *Clients, p Process) (err error) {
	if err := external.CheckPooling(ctx, s.DatabaseURL); err != nil {
		return err
	}

	if err := postgres.Migrate(ctx, s.DatabaseURL); err != nil {
		return err
	}

	if c.DB, err = postgres.Open(ctx, s.DatabaseURL, postgres.Options{
		MaxConns: sharedConns, StepConns: stepConns, LeaseConns: leaseConns, Box: p.Box, Logger: p.Logger, Tracer: p.Tracing.Statements(),
	}); err != nil {
		return err
	}

	c.closers = append(c.closers, c.DB.Close)
	metrics.RegisterLoad(p.Metrics, c.DB)
	metrics.RegisterWaits(p.Metrics, c.DB)

	return c.DB.RaiseSandboxUsers(ctx, p.SandboxUsers)
}

// CheckDatabaseURL checks an address of DATABASE_URL with the files of certificates that it names. It is
// not quoted: it holds a password.
func CheckDatabaseURL(url string) error {
	if _, err := pgxpool.ParseConfig(url); err != nil {
		if file, ok := errors.AsType[*fs.PathError](err); ok {
			return fmt.Errorf("DATABASE_URL: %w", file)
		}

		return errors.New(
			"DATABASE_URL must be as postgres://user:password@host:5432/database; check also the files and the mode of TLS that it names")
	}

	return nil
}
