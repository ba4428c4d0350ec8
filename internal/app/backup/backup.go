// Package backup has the roles that write the state of a deployment into one file and
// restore it.
package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"everloop/companions/identity"
	"everloop/companions/registry"
	"everloop/infra/backup"
	"everloop/infra/embedded"
	"everloop/infra/postgres"
	"everloop/infra/secrets"
	"everloop/internal/app/companion"
	"everloop/internal/app/engine"
	"everloop/internal/app/flags"
	"everloop/internal/schema"
)

// Create writes the state of a deployment into one file. The service may run, or not.
type Create struct {
	File       string `arg:"" type:"path" help:"Backup to write; it must not exist."`
	deployment `embed:""`
}

// Run implements the command.
func (c *Create) Run(ctx context.Context) error {
	if err := c.check(); err != nil {
		return err
	}

	if c.DatabaseURL == "" {
		if _, err := os.Stat(filepath.Join(c.DataDir, "postgres", "data", "PG_VERSION")); err != nil {
			return fmt.Errorf("%s contains no data of Everloop: set DATA_DIR, or DATABASE_URL of an external PostgreSQL", c.DataDir)
		}
	}

	began := time.Now()

	d, stop, err := c.open(ctx, true)
	if err != nil {
		return err
	}

	m, err := backup.Write(ctx, c.File, d)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}

	size := int64(0)
	if info, err := os.Stat(c.File); err == nil {
		size = info.Size()
	}

	writeParts(os.Stdout, m)
	fmt.Fprintf(os.Stdout, "\nWrote %s (%d bytes) in %.1f s: the records of %s\n", c.File, size, time.Since(began).Seconds(),
		m.Time.Format(time.RFC3339))

	if c.EncryptionKey != "" {
		fmt.Fprintln(os.Stdout, "The backup does not have ENCRYPTION_KEY: keep it, a restore needs it.")
	}

	return nil
}

func writeParts(w io.Writer, m backup.Manifest) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PART\tENTRIES\tBYTES\t")

	for _, part := range m.Parts {
		fmt.Fprintf(table, "%s\t%d\t%d\t\n", part.Name, part.Entries, part.Bytes)
	}

	_ = table.Flush() // a text for people
}

// deployment says where the state of a deployment is. The engines that no variable names
// are those of `everloop up`.
type deployment struct {
	DataDir        string `default:"./data" env:"DATA_DIR" type:"path" help:"Data directory."`
	EncryptionKey  string `env:"ENCRYPTION_KEY" help:"Key for values encrypted at rest, where it is configured; the backup has the one in KEY_DIR, and never this one."`
	PostgresBinDir string `type:"path" help:"PostgreSQL bin directory; auto-detected when unset."`

	flags.Keys              `embed:""`
	engine.PostgresSettings `embed:""`
	engine.ObjectsSettings  `embed:""`
}

// engines are those that hold state. Temporal's is made again from the database, and so
// is the event log: docs/decisions/0013-backups-hold-records-and-files.md.
func (c *deployment) engines() []engine.Engine {
	return []engine.Engine{c.PostgresSettings.Engine(), c.ObjectsSettings.Engine()}
}

// check finds the faults of the settings, and makes paths absolute.
func (c *deployment) check() error {
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return fmt.Errorf("DATA_DIR: %w", err)
	}

	c.DataDir = dir

	return errors.Join(c.PostgresSettings.Check(), c.ObjectsSettings.Check())
}

// open starts the engines that are embedded, or, with attach, reaches those of the
// process that runs. The settings name them then. stop ends what was started.
func (c *deployment) open(ctx context.Context, attach bool) (d backup.Deployment, stop func() error, err error) {
	stop = func() error { return nil }
	start := embedded.Config{Dir: c.DataDir}

	for _, e := range c.engines() {
		if e.Address() == "" {
			start.Engines = append(start.Engines, e.Embed(engine.Embedding{PostgresBinDir: c.PostgresBinDir})...)
		}
	}

	if len(start.Engines) > 0 {
		engines, err := embedded.Start(ctx, start)

		switch {
		case err == nil:
			stop = func() error { return engine.Stop(engines) }

			for _, e := range c.engines() {
				e.Adopt(engines)
			}
		case attach && errors.Is(err, embedded.ErrUsed):
			if stop, err = c.attach(ctx); err != nil {
				return d, stop, err
			}
		default:
			return d, stop, err
		}
	}

	if d, err = c.contents(); err != nil {
		return d, stop, errors.Join(err, stop())
	}

	return d, stop, nil
}

// attach reaches the engines of the process that uses the data directory.
func (c *deployment) attach(ctx context.Context) (stop func() error, err error) {
	stop = func() error { return nil }

	if c.DatabaseURL == "" {
		if c.DatabaseURL, err = embedded.AttachPostgres(c.DataDir, "everloop"); err != nil {
			return stop, err
		}
	}

	if c.S3Endpoint == "" {
		server, err := embedded.AttachObjects(ctx, c.DataDir, slog.Default())
		if err != nil {
			return stop, err
		}

		c.S3Endpoint, c.S3Bucket = server.Endpoint(), embedded.Bucket
		c.S3AccessKey, c.S3SecretKey = server.AccessKey(), server.SecretKey()
		stop = func() error { return engine.Stop(server) }
	}

	return stop, nil
}

// contents lists what a backup holds.
func (c *deployment) contents() (d backup.Deployment, err error) {
	client, err := minio.New(c.S3Endpoint, &minio.Options{
		Creds: credentials.NewStaticV4(c.S3AccessKey, c.S3SecretKey, ""), Secure: c.S3UseTLS, Transport: c.Transport(),
	})
	if err != nil {
		return d, fmt.Errorf("object store at %s: %w", c.S3Endpoint, err)
	}

	below := func(name string) string { return filepath.Join(c.DataDir, name) }
	keys := cmp.Or(c.KeyDir, c.DataDir)

	return backup.Deployment{
		Databases: c.databases(c.DatabaseURL),
		Bucket:    backup.Bucket{Client: client, Name: c.S3Bucket},
		Trees: []backup.Tree{
			{Name: "workspace", Dir: below("workspace"), Skip: []string{".everloop-staging"}},
			{Name: "git", Dir: below("git"), Skip: []string{"lock", "work", "empty.git", "hooks"}},
			{Name: "agent_env", Dir: below("agent_env")},
			{Name: "solutions", Dir: flags.SolutionsIn(c.DataDir)},
			{Name: "config", Dir: below("config")},
		},
		Files: []backup.File{
			{Name: flags.EncryptionKeyFile, Path: filepath.Join(keys, flags.EncryptionKeyFile)},
			{Name: "gateway-key", Path: filepath.Join(keys, "gateway-key")},
			{Name: "bootstrap-key", Path: below("bootstrap-key")},
			{Name: "identity-admin-password", Path: companion.PasswordFile(c.DataDir)},
		},
		Seal: func(text []byte) ([]byte, error) {
			if _, err := os.Stat(filepath.Join(keys, flags.EncryptionKeyFile)); err != nil && c.EncryptionKey == "" {
				return nil, fmt.Errorf("the encryption key is missing: set ENCRYPTION_KEY, or KEY_DIR where the file is: %w", err)
			}

			box, err := c.SecretBox(c.DataDir, c.EncryptionKey)
			if err != nil {
				return nil, err
			}

			return box.Seal(sealPurpose, text)
		},
		Progress: func(what string) { slog.Info("backup part in progress", "part", what) },
	}, nil
}

const sealPurpose = "backup"

// databases returns the database of the agent and of the companions.
func (c *deployment) databases(url string) []backup.Database {
	migrated := func(s schema.Schema) backup.Schema {
		return backup.Schema{Name: s.Name, Newest: s.Newest(), Migrate: s.MigrateTo}
	}

	return []backup.Database{{
		Name: "everloop", URL: url, Live: postgres.LiveSessions,
		Schemas: []backup.Schema{migrated(postgres.Records()), migrated(identity.Records()), migrated(registry.Records())},
		Restored: []backup.Statement{
			{
				SQL:  postgres.DeleteGone,
				Gone: true,
			},
			{SQL: postgres.ForgetEngine},
			{SQL: postgres.NewGeneration},
		},
	}}
}

// checkKey holds the key that a restored deployment will use against the backup.
func (c *deployment) checkKey(archive backup.Checked) error {
	key := c.EncryptionKey
	if key == "" {
		key = string(archive.Key)
	}

	if key == "" {
		return errors.New("the backup was written with ENCRYPTION_KEY, which it does not hold: set it as it was then")
	}

	box, err := secrets.NewBox(key)
	if err != nil {
		return fmt.Errorf("ENCRYPTION_KEY: %w", err)
	}

	if text, err := box.Open(sealPurpose, archive.Sealed); err != nil || string(text) != backup.SealedText {
		return errors.New("ENCRYPTION_KEY is not the one of the backup: set it as it was when the backup was written")
	}

	return nil
}
