package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"everloop/auth"
	"everloop/infra/embedded"
	"everloop/infra/postgres"
	"everloop/infra/secrets"
	"everloop/internal/app/flags"
	"everloop/service/accounts"
)

// Temporal serves Temporal with the settings that the embedded one has, and its
// web UI, for the roles of other processes and machines. The state is in
// PostgreSQL; nothing is kept on this machine. One process may do so for one
// PostgreSQL server: a second one says so and ends.
type Temporal struct {
	DatabaseURL string        `required:"" env:"DATABASE_URL" help:"PostgreSQL 15 or newer; Temporal's databases are made there when missing. Its users' API keys open Temporal to administrators."`
	Addr        string        `default:"127.0.0.1:7233" env:"TEMPORAL_ADDR" help:"Where Temporal listens. It asks for a key, and does not encrypt: keep it on a private network."`
	APIKey      string        `name:"api-key" env:"TEMPORAL_API_KEY" help:"Key of at least 32 characters by which the other roles reach Temporal; when unset, one is made and kept in temporal-key below KEY_DIR."`
	DataDir     string        `default:"./data" env:"DATA_DIR" type:"path" help:"Directory of temporal-key, unless KEY_DIR is set."`
	Retention   time.Duration `name:"retention" default:"168h" help:"How long the server keeps closed runs for operators to look at."`
	UIAddr      string        `name:"ui-addr" default:"127.0.0.1:8233" env:"TEMPORAL_UI_ADDR" help:"Where the web UI listens; /healthz answers there once Temporal is ready."`

	flags.Keys  `embed:""`
	flags.Hosts `embed:""`
}

// Run implements the command.
func (c *Temporal) Run(ctx context.Context) error {
	if err := errors.Join(
		flags.CheckAddress("TEMPORAL_ADDR", c.Addr),
		flags.CheckAddress("TEMPORAL_UI_ADDR", c.UIAddr),
		CheckRetention(c.Retention),
		c.Hosts.Check(),
	); err != nil {
		return err
	}

	key, err := serviceKey(c.Keys, c.DataDir, c.APIKey)
	if err != nil {
		return err
	}

	administrators, closeKeys, err := c.administrators(ctx)
	if err != nil {
		return err
	}
	defer closeKeys()

	dir, err := os.MkdirTemp("", "everloop-temporal-") // for the lock of the engines alone
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	engines, err := embedded.Start(ctx, embedded.Config{
		Dir: dir,
		Engines: []embedded.Engine{
			embedded.TemporalConfig{
				Frontend: embedded.Listen{Addr: c.Addr, Variable: "TEMPORAL_ADDR"}, DatabaseURL: c.DatabaseURL, Retention: c.Retention,
				Administrators: administrators, ServiceKey: key,
			},
			embedded.TemporalUIConfig{Listen: embedded.Listen{Addr: c.UIAddr, Variable: "TEMPORAL_UI_ADDR"}, Hosts: c.Allowed()},
		},
	})
	if err != nil {
		return err
	}

	slog.Info("Temporal started", "addr", embedded.Of[*embedded.Temporal](engines).Address(),
		"ui", embedded.Of[*embedded.TemporalUI](engines).URL(), "namespace", embedded.Namespace)

	return errors.Join(engines.Wait(ctx), Stop(engines))
}

// keyConns are enough for the lookups of keys, which are remembered for seconds.
const keyConns = 2

// administrators verifies API keys by the records of DATABASE_URL, which need not be
// migrated yet.
func (c *Temporal) administrators(ctx context.Context) (_ *Administrators, closeAll func(), err error) {
	db, err := postgres.Open(ctx, c.DatabaseURL, postgres.Options{MaxConns: keyConns, ApplicationName: "everloop-temporal"})
	if err != nil {
		return nil, nil, err
	}

	found := &Administrators{}
	authenticator := auth.New(accounts.New(db.DB), auth.Options{})
	found.Use(authenticator)

	return found, func() { authenticator.Close(); db.Close() }, nil
}

// CheckRetention checks how long closed runs are kept.
func CheckRetention(kept time.Duration) error {
	if kept < embedded.MinTemporalRetention || kept > embedded.MaxTemporalRetention {
		return fmt.Errorf("the retention must be from %s to %s", embedded.MinTemporalRetention, embedded.MaxTemporalRetention)
	}

	return nil
}

// temporalKeyFile holds the key by which the roles of other processes reach the
// Temporal of the temporal role.
const temporalKeyFile = "temporal-key"

// minTemporalKey is the least length of a key for Temporal that an operator sets.
const minTemporalKey = 32

// serviceKey gives the key that the temporal role accepts from other roles: the one of
// the environment, or one that it keeps.
func serviceKey(keys flags.Keys, dataDir, given string) (string, error) {
	if given != "" {
		if len(given) < minTemporalKey {
			return "", fmt.Errorf("TEMPORAL_API_KEY must have at least %d characters", minTemporalKey)
		}

		return given, nil
	}

	file, err := keys.KeyFile(dataDir, temporalKeyFile)
	if err != nil {
		return "", err
	}

	key, err := secrets.KeyFile(file)
	if err != nil {
		return "", fmt.Errorf("key for Temporal: %w", err)
	}

	return strings.TrimSpace(key), nil
}
