package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"everloop/infra/embedded"
)

// stopTime bounds an orderly end of the engines.
const stopTime = 30 * time.Second

// enginesCmd starts PostgreSQL, Temporal, NATS and the object store, writes how to
// reach them into DIR/engines.json, prints "ready" and that path, and waits. Tests
// connect to them, so that test binaries need not link the engines.
type enginesCmd struct {
	Dir            string `required:"" xor:"place" type:"path" help:"Directory for the data and for engines.json."`
	Temporary      bool   `required:"" xor:"place" help:"Use a new temporary directory, and remove it at the end."`
	UI             bool   `name:"ui" help:"Serve Temporal's web UI too."`
	WatchStdin     bool   `help:"End when standard input closes, as it does when the parent process dies."`
	TemporalAddr   string `default:"127.0.0.1:0" env:"TEMPORAL_ADDR" help:"Where Temporal listens; port 0 takes a free one."`
	TemporalUIAddr string `name:"temporal-ui-addr" default:"127.0.0.1:8233" env:"TEMPORAL_UI_ADDR" help:"Where Temporal's web UI listens."`
	PostgresBinDir string `type:"path" env:"POSTGRES_BIN_DIR" help:"Directory with the programs of PostgreSQL; found by itself when unset."`
}

// enginesFile is the content of engines.json. It holds secrets: mode 0600.
type enginesFile struct {
	PostgresURL       string `json:"postgres_url"`
	TemporalAddress   string `json:"temporal_address"`
	TemporalNamespace string `json:"temporal_namespace"`
	NATSURL           string `json:"nats_url"`
	S3Endpoint        string `json:"s3_endpoint"`
	S3Bucket          string `json:"s3_bucket"`
	S3AccessKey       string `json:"s3_access_key"`
	S3SecretKey       string `json:"s3_secret_key"`
}

// Run implements the command.
func (c *enginesCmd) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if c.WatchStdin {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}

	if c.Temporary {
		dir, err := os.MkdirTemp("", "everloop-engines-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		c.Dir = dir
	}

	cfg := embedded.Config{
		Dir: c.Dir,
		Progress: func(part, state string) {
			slog.Info("engine", "part", part, "state", state)
		},
		Postgres: &embedded.PostgresConfig{BinDir: c.PostgresBinDir},
		Temporal: &embedded.TemporalConfig{
			Frontend: embedded.Listen{Addr: c.TemporalAddr, Variable: "TEMPORAL_ADDR"},
		},
		Events:  &embedded.EventsConfig{Listen: embedded.Listen{Addr: "127.0.0.1:0"}},
		Objects: &embedded.ObjectsConfig{},
	}
	if c.UI {
		cfg.UI = &embedded.TemporalUIConfig{
			Listen: embedded.Listen{Addr: c.TemporalUIAddr, Variable: "TEMPORAL_UI_ADDR"},
		}
	}
	engines, err := embedded.Start(ctx, cfg)
	if err != nil {
		return err
	}
	return errors.Join(c.serve(ctx, engines), stopEngines(engines))
}

// serve announces the engines and waits for the end of ctx or of an engine.
func (c *enginesCmd) serve(ctx context.Context, engines *embedded.Engines) error {
	path := filepath.Join(c.Dir, "engines.json")
	if err := writeEnginesFile(path, engines); err != nil {
		return err
	}
	defer os.Remove(path) // whoever reads it from now on finds nothing, not dead addresses
	fmt.Println("ready", path)
	select {
	case <-ctx.Done():
		return nil
	case err := <-engines.Dead():
		return err
	}
}

func stopEngines(engines *embedded.Engines) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	return engines.Stop(ctx)
}

// writeEnginesFile puts the file in its place whole, so that a reader never sees
// half of it.
func writeEnginesFile(path string, engines *embedded.Engines) error {
	content, err := json.MarshalIndent(enginesFile{
		PostgresURL:       engines.Postgres.URL("everloop"),
		TemporalAddress:   engines.Temporal.Address(),
		TemporalNamespace: embedded.Namespace,
		NATSURL:           engines.Events.URL(),
		S3Endpoint:        engines.Objects.Endpoint(),
		S3Bucket:          embedded.Bucket,
		S3AccessKey:       engines.Objects.AccessKey(),
		S3SecretKey:       engines.Objects.SecretKey(),
	}, "", "  ")
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".engines-*.json") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(append(content, '\n'))
	if err := errors.Join(err, temp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(temp.Name(), path)
}
