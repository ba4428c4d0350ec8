package engine

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"everloop/infra/embedded"
)

// Command starts the engines, writes how to reach them into DIR/engines.json, prints
// "ready" and that path, and waits. Tests connect to them, so that test binaries need
// not link the engines.
type Command struct {
	Dir            string   `required:"" xor:"place" type:"path" help:"Directory for the data and for engines.json."`
	Temporary      bool     `required:"" xor:"place" help:"Use a new temporary directory, and remove it at the end."`
	Only           []string `help:"Start these engines alone, by their names in /readyz. Unset: all."`
	UI             bool     `name:"ui" help:"Also serve Temporal's web UI."`
	WatchStdin     bool     `help:"Exit when standard input closes, as it does when the parent process dies."`
	TemporalAddr   string   `default:"127.0.0.1:0" env:"TEMPORAL_ADDR" help:"Where Temporal listens; port 0 takes a free one."`
	TemporalUIAddr string   `name:"temporal-ui-addr" default:"127.0.0.1:8233" env:"TEMPORAL_UI_ADDR" help:"Where Temporal's web UI listens."`
	PostgresBinDir string   `type:"path" help:"PostgreSQL bin directory; auto-detected when unset."`

	temporalKey string // opens Temporal; new at each start
}

// Run implements the command.
func (c *Command) Run(ctx context.Context) error {
	chosen, err := c.chosen()
	if err != nil {
		return err
	}

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

	c.temporalKey = rand.Text()

	engines, err := embedded.Start(ctx, c.config(chosen))
	if err != nil {
		return err
	}

	return errors.Join(c.serve(ctx, chosen, engines), Stop(engines))
}

// chosen returns the engines to start.
func (c *Command) chosen() ([]Engine, error) {
	list := (&Settings{}).Engines() // no setting points one elsewhere
	if len(c.Only) == 0 {
		return list, nil
	}

	var chosen []Engine

	for _, name := range c.Only {
		at := slices.IndexFunc(list, func(e Engine) bool { return e.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("--only: there is no engine %q, only %s", name, strings.Join(names(list), ", "))
		}

		chosen = append(chosen, list[at])
	}

	return chosen, nil
}

func names(engines []Engine) []string {
	var all []string
	for _, e := range engines {
		all = append(all, e.Name)
	}

	return all
}

// config returns how they are started.
func (c *Command) config(chosen []Engine) embedded.Config {
	cfg := embedded.Config{
		Dir: c.Dir,
		Progress: func(name, state string) {
			slog.Info("engine", "part", name, "state", state)
		},
	}
	for _, e := range chosen {
		cfg.Engines = append(cfg.Engines, e.Embed(c.embedding())...)
	}

	return cfg
}

func (c *Command) embedding() Embedding {
	how := Embedding{
		Ports: true, PostgresBinDir: c.PostgresBinDir,
		Temporal: embedded.TemporalConfig{
			Frontend: embedded.Listen{Addr: c.TemporalAddr, Variable: "TEMPORAL_ADDR"}, ServiceKey: c.temporalKey,
		},
	}
	if c.UI {
		how.TemporalUI = &embedded.TemporalUIConfig{Listen: embedded.Listen{Addr: c.TemporalUIAddr, Variable: "TEMPORAL_UI_ADDR"}}
	}

	return how
}

// serve announces the engines and waits for the end of ctx or of an engine.
func (c *Command) serve(ctx context.Context, chosen []Engine, engines *embedded.Engines) error {
	path := filepath.Join(c.Dir, "engines.json")

	reach := map[string]string{}
	for _, e := range chosen {
		maps.Copy(reach, e.reach(engines, c.embedding()))
	}

	if err := writeReach(path, reach); err != nil {
		return err
	}

	defer os.Remove(path) // who reads it from now on finds nothing, not dead addresses

	fmt.Println("ready", path) //nolint:forbidigo // the output of the command

	return engines.Wait(ctx)
}

// writeReach writes how the engines are reached, with their secrets: mode 0600. The file
// gets its name when it is complete, so that a reader never sees half of it.
func writeReach(path string, reach map[string]string) error {
	content, err := json.MarshalIndent(reach, "", "  ")
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
