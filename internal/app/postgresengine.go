package app

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
	"everloop/terminal/doctor"
)

// postgresSettings say where the records are. The URL says by itself how TLS is used.
type postgresSettings struct {
	DatabaseURL string `env:"DATABASE_URL" help:"PostgreSQL 15 or newer; embedded when unset."`
}

// postgresClients are this process's connections to the records.
type postgresClients struct {
	db *postgres.DB
}

// The connections of one process to the records, opened as they are needed.
const (
	sharedConns = 12
	stepConns   = 16
	leaseConns  = 2
)

func postgresEngine() engine {
	return engine{
		name: "postgres", label: "PostgreSQL", title: "Records (PostgreSQL)", variable: "DATABASE_URL", secret: true,
		hint:    "Check that PostgreSQL runs and that DATABASE_URL is right.",
		address: func(s *settings) string { return s.DatabaseURL },
		options: func(s *settings) error {
			if s.DatabaseURL == "" {
				return nil
			}

			return databaseURL(s.DatabaseURL)
		},
		embed: func(e embedding) []embedded.Engine {
			return []embedded.Engine{embedded.PostgresConfig{BinDir: e.postgresBinDir}}
		},
		adopt: func(s *settings, engines *embedded.Engines) {
			if server := embedded.Of[*embedded.Postgres](engines); server != nil {
				s.DatabaseURL = server.URL("everloop")
			}
		},
		reach: func(engines *embedded.Engines, _ embedding) map[string]string {
			server := embedded.Of[*embedded.Postgres](engines)
			if server == nil {
				return nil
			}

			return map[string]string{
				"postgres_url":           server.URL("everloop"),
				"postgres_superuser_url": server.SuperuserURL("everloop"), // for tests that create databases
			}
		},
		open: openPostgres,
		check: func(ctx context.Context, b *backend) (string, error) {
			began := time.Now()
			err := b.db.Ping(ctx)

			return fmt.Sprintf("answers in %d ms", time.Since(began).Milliseconds()), err
		},
		probe: func(ctx context.Context, s *settings) []doctor.Check {
			server, clock := external.ProbePostgres(ctx, s.DatabaseURL)

			checks := []doctor.Check{doctor.CheckOf("PostgreSQL", server)}
			if clock != nil {
				checks = append(checks, doctor.CheckOf("database clock", *clock))
			}

			return checks
		},
		needs: func(ctx context.Context, dataDir string, e embedding) []doctor.Check {
			return doctor.EmbeddedPostgres(ctx, dataDir, e.postgresBinDir)
		},
	}
}

func openPostgres(ctx context.Context, b *backend) (err error) {
	if err := postgres.Migrate(ctx, b.settings.DatabaseURL); err != nil {
		return err
	}

	if b.db, err = postgres.Open(ctx, b.settings.DatabaseURL, postgres.Options{
		MaxConns: sharedConns, StepConns: stepConns, LeaseConns: leaseConns, Box: b.buckets.Box, Tracer: b.tracing.Statements(),
	}); err != nil {
		return err
	}

	b.closers = append(b.closers, b.db.Close)
	metrics.RegisterLoad(b.metrics, b.db)
	metrics.RegisterWaits(b.metrics, b.db)

	return b.db.RaiseSandboxUsers(ctx, b.settings.SandboxUsers)
}

// databaseURL checks the address with the files of certificates that it names. It is
// not quoted: it holds a password.
func databaseURL(url string) error {
	if _, err := pgxpool.ParseConfig(url); err != nil {
		if file, ok := errors.AsType[*fs.PathError](err); ok {
			return fmt.Errorf("DATABASE_URL: %w", file)
		}

		return errors.New(
			"DATABASE_URL must be as postgres://user:password@host:5432/database; check also the files and the mode of TLS that it names")
	}

	return nil
}
