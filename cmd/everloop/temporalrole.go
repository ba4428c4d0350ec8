package main

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"everloop/infra/embedded"
)

// temporalCmd serves Temporal with the settings that the embedded one has, and its
// web UI, for the roles of other processes and machines. The state is in
// PostgreSQL; nothing is kept on this machine. One process may do so for one
// PostgreSQL server: a second one says so and ends.
type temporalCmd struct {
	DatabaseURL string `required:"" env:"DATABASE_URL" help:"PostgreSQL 15 or newer; Temporal's databases are made there when missing."`
	Addr        string `default:"127.0.0.1:7233" env:"TEMPORAL_ADDR" help:"Where Temporal listens. It knows no authentication: keep it on a private network."`
	UIAddr      string `name:"ui-addr" default:"127.0.0.1:8233" env:"TEMPORAL_UI_ADDR" help:"Where the web UI listens; /healthz answers there once Temporal is ready."`
}

// Run implements the command.
func (c *temporalCmd) Run(ctx context.Context) error {
	if err := errors.Join(address("TEMPORAL_ADDR", c.Addr), address("TEMPORAL_UI_ADDR", c.UIAddr)); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "everloop-temporal-") // for the lock of the engines alone
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	engines, err := embedded.Start(ctx, embedded.Config{
		Dir: dir,
		Temporal: &embedded.TemporalConfig{
			Frontend: embedded.Listen{Addr: c.Addr, Variable: "TEMPORAL_ADDR"}, DatabaseURL: c.DatabaseURL,
		},
		UI: &embedded.TemporalUIConfig{Listen: embedded.Listen{Addr: c.UIAddr, Variable: "TEMPORAL_UI_ADDR"}},
	})
	if err != nil {
		return err
	}
	slog.Info("Temporal serves", "addr", engines.Temporal.Address(), "ui", engines.UI.URL(), "namespace", embedded.Namespace)
	select {
	case <-ctx.Done():
		err = nil
	case err = <-engines.Dead():
	}
	return errors.Join(err, stopEngines(engines))
}
