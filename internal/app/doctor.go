package app

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"everloop/internal/app/flags"

	"golang.org/x/term"

	"everloop/terminal/doctor"
)

// Doctor checks what a start with the same flags and variables needs.
type Doctor struct {
	Start Up   `embed:""`
	JSON  bool `name:"json" help:"Write the report as JSON."`
}

// Run implements the command. Exit code 1 reports that something must be fixed.
func (c *Doctor) Run(ctx context.Context) error {
	checks := doctor.Run(ctx, c.settings())

	var err error
	if c.JSON {
		err = doctor.WriteJSON(os.Stdout, checks)
	} else {
		err = doctor.WriteText(os.Stdout, checks, term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == "")
	}

	if err == nil && doctor.Failed(checks) {
		os.Exit(1)
	}

	return err
}

func (c *Doctor) settings() doctor.Settings {
	s := &c.Start.settings

	out := doctor.Settings{
		ModelURL: s.GatewayURL, ModelKey: s.GatewayKey, Model: s.Model, ContextWindow: s.ContextWindow, Sandbox: s.sandboxConfig(),
		Browser: s.browserTools(), Reserve: flags.Reserve,
	}
	if err := s.check(); err != nil {
		out.Faults = strings.Split(err.Error(), "\n")
	}

	out.DataDir = s.DataDir
	if dir, err := filepath.Abs(s.DataDir); err == nil {
		out.DataDir = dir
	}

	var unused []string // variables of embedded engines that are not started

	for _, e := range s.Engines() {
		out.Engines = append(out.Engines, func(ctx context.Context) []doctor.Check {
			return e.Diagnose(ctx, out.DataDir, c.Start.embedding())
		})
		if e.Address() != "" {
			unused = append(unused, e.Listens...)
		}
	}

	out.Addresses = slices.DeleteFunc(doctor.Addresses(c.Start), func(a doctor.Address) bool {
		return slices.Contains(unused, a.Variable)
	})

	return out
}
