package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"everloop/terminal/doctor"
)

// doctorCmd checks what a start with the same flags and variables needs.
type doctorCmd struct {
	Start upCmd `embed:""`
	JSON  bool  `name:"json" help:"Write the report as JSON."`
}

// Run implements the command. Exit code 1 says that something has to be mended.
func (c *doctorCmd) Run(ctx context.Context) error {
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

func (c *doctorCmd) settings() doctor.Settings {
	s := &c.Start.settings
	out := doctor.Settings{
		Addresses:   doctor.Addresses(c.Start),
		DatabaseURL: s.DatabaseURL, PostgresBinDir: c.Start.PostgresBinDir,
		TemporalAddress: s.TemporalAddress, TemporalNamespace: s.TemporalNamespace, NATSURL: s.NATSURL,
		S3:       doctor.S3{Endpoint: s.S3Endpoint, Bucket: s.S3Bucket, AccessKey: s.S3AccessKey, SecretKey: s.S3SecretKey, TLS: s.S3UseTLS},
		ModelURL: s.GatewayURL, ModelKey: s.GatewayKey, Model: s.Model, SandboxLevel: s.SandboxMinLevel, Unsafe: s.SandboxUnsafe, ReadOnly: s.SandboxReadOnly,
	}
	if err := s.check(); err != nil {
		out.Faults = strings.Split(err.Error(), "\n")
	}
	out.DataDir = s.DataDir
	if dir, err := filepath.Abs(s.DataDir); err == nil {
		out.DataDir = dir
	}
	return out
}
