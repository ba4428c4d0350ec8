package backup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/infra/backup"
	"everloop/infra/embedded"
	"everloop/infra/temporal"
	"everloop/internal/app/engine"
	"everloop/internal/app/flags"
)

// Restore writes a backup of [Create] into an empty place: a data directory, or the
// engines and directories that the variables name.
type Restore struct {
	File       string `arg:"" type:"existingfile" help:"Backup to restore."`
	deployment `embed:""`

	engine.TemporalSettings `embed:""`
}

// Run implements the command.
func (c *Restore) Run(ctx context.Context) error {
	file, err := filepath.Abs(c.File) // the object store changes the directory of the process
	if err := errors.Join(err, c.deployment.check()); err != nil {
		return err
	}

	began := time.Now()

	archive, err := backup.Check(file, flags.EncryptionKeyFile)
	if err != nil {
		return err
	}

	if err := errors.Join(c.checkKey(archive), c.empty(ctx)); err != nil {
		return err
	}

	d, stop, err := c.open(ctx, false)
	if err != nil {
		return err
	}

	err = c.marked(func() error { return archive.Restore(ctx, d) })
	if err := errors.Join(err, stop()); err != nil {
		return err
	}

	writeParts(os.Stdout, archive.Manifest)
	fmt.Fprintf(os.Stdout, "\nRestored %s in %.1f s: the records of %s, written by version %s\n", c.File, time.Since(began).Seconds(),
		archive.Time.Format(time.RFC3339), archive.Version)

	return nil
}

// empty refuses a place that is in use before anything is started.
func (c *Restore) empty(ctx context.Context) error {
	if c.DatabaseURL == "" {
		if err := embedded.Unused(c.DataDir); err != nil {
			return err
		}

		return backup.Occupied(c.DataDir)
	}

	if c.TemporalAddress == "" {
		return c.noTemporalDatabase(ctx)
	}

	options, err := engine.TemporalOptions(c.Keys, c.DataDir)
	if err := errors.Join(err, flags.CheckAddress("TEMPORAL_ADDRESS", c.TemporalAddress)); err != nil {
		return err
	}

	options.HostPort, options.Namespace = c.TemporalAddress, c.TemporalNamespace

	reached, err := temporal.Dial(ctx, options, slog.Default())
	if err != nil {
		return err
	}
	defer reached.Close()

	open, err := temporal.CountOpen(ctx, reached, c.TemporalNamespace)
	if err == nil && open > 0 {
		err = fmt.Errorf("Temporal at %s has %d open runs in namespace %s, which do not belong to the backup: stop Everloop, and "+
			"use an empty namespace, or drop the databases temporal and temporal_visibility", c.TemporalAddress, open, c.TemporalNamespace)
	}

	return err
}

// noTemporalDatabase refuses a server on which an earlier `everloop up` has left runs.
func (c *Restore) noTemporalDatabase(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.DatabaseURL)
	if err != nil {
		return fmt.Errorf("reach DATABASE_URL: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))

	var found bool

	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = 'temporal')`).Scan(&found)
	if err == nil && found {
		err = errors.New("the server of DATABASE_URL has a database temporal, whose runs do not belong to the backup: stop Everloop and " +
			"drop temporal and temporal_visibility, or set TEMPORAL_ADDRESS where the server serves another deployment too")
	}

	return err
}

// unfinished marks a data directory whose restore has not ended.
const unfinished = "restore-unfinished"

// marked keeps the mark in the data directory while work is done, and when it fails.
func (c *Restore) marked(work func() error) error {
	mark := filepath.Join(c.DataDir, unfinished)
	if err := os.MkdirAll(c.DataDir, 0o711); err != nil {
		return err
	}

	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		return err
	}

	if err := work(); err != nil {
		return fmt.Errorf("%w; what was restored so far is not whole: remove it before the next try", err)
	}

	return os.Remove(mark)
}

// CheckRestored refuses to start on what a restore has left half done.
func CheckRestored(dataDir string) error {
	if _, err := os.Lstat(filepath.Join(dataDir, unfinished)); err == nil {
		return fmt.Errorf("%s was not restored completely (it has the file %s): remove it and restore it again", dataDir, unfinished)
	}

	return nil
}
