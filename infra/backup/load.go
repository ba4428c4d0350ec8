package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// unused returns an error if one of the schemas has a table.
func (db Database) unused(ctx context.Context) error {
	conn, err := connect(ctx, db)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))

	for _, schema := range db.Schemas {
		var tables int

		err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'S')`, schema.Name).Scan(&tables)
		if err != nil {
			return fmt.Errorf("look into database %s: %w", db.Name, err)
		}

		if tables > 0 {
			return fmt.Errorf("database %s is not empty (schema %s has %d tables): a restore needs an empty database, "+
				"which no service uses", db.Name, schema.Name, tables)
		}
	}

	return nil
}

// known returns an error for contents that this program cannot restore.
func (db Database) known(c Contents) error {
	for name, version := range c.Schemas {
		at := slices.IndexFunc(db.Schemas, func(s Schema) bool { return s.Name == name })
		if at < 0 {
			return fmt.Errorf("the backup has schema %s in database %s, which this program does not know: use a newer program",
				name, db.Name)
		}

		if version > db.Schemas[at].Newest {
			return fmt.Errorf(
				"the backup has version %d of schema %s, this program knows %d: use the program that wrote it, or a newer one",
				version,
				name,
				db.Schemas[at].Newest,
			)
		}
	}

	return nil
}

// migrate migrates the schemas to the versions of the backup, or to the newest ones.
func (db Database) migrate(ctx context.Context, c Contents, newest bool) error {
	for _, schema := range db.Schemas {
		version, kept := c.Schemas[schema.Name]
		if !kept {
			continue
		}

		if newest {
			version = schema.Newest
		}

		if err := schema.Migrate(ctx, db.URL, version); err != nil {
			return err
		}
	}

	return nil
}

// load writes the rows of a database, in one transaction.
type load struct {
	db       Database
	contents Contents
	conn     *pgx.Conn
	tx       pgx.Tx
	later    []string // statements that restore constraints and triggers

	table  Table // current table
	rows   *io.PipeWriter
	copied chan struct{} // closed after the rows were copied, or failed is set
	failed error
}

// openLoad creates the schemas and deletes the rows of migrations. Foreign keys and triggers are
// dropped until all rows are restored, so that tables can be loaded in any order; this requires
// the ownership of the tables, not a superuser.
func openLoad(ctx context.Context, db Database, c Contents) (*load, error) {
	if err := db.migrate(ctx, c, false); err != nil {
		return nil, err
	}

	conn, err := connect(ctx, db)
	if err != nil {
		return nil, err
	}

	l := &load{db: db, contents: c, conn: conn}
	if l.tx, err = conn.Begin(ctx); err == nil {
		err = l.prepare(ctx)
	}

	if err != nil {
		l.close(ctx)
		return nil, fmt.Errorf("prepare database %s: %w", db.Name, err)
	}

	return l, nil
}

// close closes the connection, which rolls back an uncommitted transaction.
func (l *load) close(ctx context.Context) {
	if l.rows != nil {
		_ = l.rows.CloseWithError(errors.New("the restore was ended"))
		<-l.copied
	}

	_ = l.conn.Close(context.WithoutCancel(ctx))
}

// prepare empties the tables and drops foreign keys and triggers within the transaction.
func (l *load) prepare(ctx context.Context) error {
	names := make([]string, 0, len(l.contents.Schemas))
	for name := range l.contents.Schemas {
		names = append(names, name)
	}

	now, later, err := suspend(ctx, l.tx, names)
	if err != nil {
		return err
	}

	l.later = later

	all := []string{}

	for _, name := range names {
		tables, err := listTables(ctx, l.conn, name)
		if err != nil {
			return err
		}

		for _, table := range tables {
			all = append(all, table.identifier())
		}
	}

	return execAll(ctx, l.tx, append(now, `TRUNCATE `+strings.Join(all, ", ")))
}

// suspend returns the statements that drop foreign keys and triggers, and the statements that
// create them again.
func suspend(ctx context.Context, tx pgx.Tx, schemas []string) (now, later []string, err error) {
	rows, err := tx.Query(ctx, `
		SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname),
		       format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname, pg_get_constraintdef(c.oid))
		FROM   pg_constraint c JOIN pg_namespace n ON n.oid = c.connamespace
		WHERE  c.contype = 'f' AND n.nspname = ANY ($1)
		UNION ALL
		SELECT DISTINCT format('ALTER TABLE %s DISABLE TRIGGER USER', tgrelid::regclass),
		       format('ALTER TABLE %s ENABLE TRIGGER USER', tgrelid::regclass)
		FROM   pg_trigger t JOIN pg_class r ON r.oid = t.tgrelid JOIN pg_namespace n ON n.oid = r.relnamespace
		WHERE  NOT t.tgisinternal AND n.nspname = ANY ($1)
		ORDER  BY 1`, schemas)
	if err != nil {
		return nil, nil, err
	}

	var drop, add string

	_, err = pgx.ForEachRow(rows, []any{&drop, &add}, func() error {
		now, later = append(now, drop), append(later, add)
		return nil
	})

	return now, later, err
}

func execAll(ctx context.Context, tx pgx.Tx, statements []string) error {
	for _, statement := range statements {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}

	return nil
}

// take writes the rows of one entry. The entries of a table are contiguous, and are one COPY.
func (l *load) take(ctx context.Context, entry string, body io.Reader) error {
	at := slices.IndexFunc(l.contents.Tables, func(t Table) bool { return strings.HasPrefix(entry, t.entry(l.db.Name)+"/") })
	if at < 0 {
		return fmt.Errorf("%w: %s belongs to no table of its manifest", ErrDamaged, entry)
	}

	if table := l.contents.Tables[at]; l.rows == nil || table.identifier() != l.table.identifier() {
		if err := l.endTable(); err != nil {
			return err
		}

		l.beginTable(ctx, table)
	}

	if _, err := io.Copy(l.rows, body); err != nil {
		return errors.Join(err, l.endTable())
	}

	return nil
}

func (l *load) beginTable(ctx context.Context, table Table) {
	from, to := io.Pipe()

	l.table, l.rows, l.copied = table, to, make(chan struct{})

	go func() {
		defer close(l.copied)

		_, err := l.tx.Conn().PgConn().CopyFrom(ctx, from, `COPY `+table.identifier()+` (`+table.list()+`) FROM STDIN`)

		_ = from.CloseWithError(err) // unblocks a write after the server has failed
		l.failed = err
	}()
}

func (l *load) endTable() error {
	if l.rows == nil {
		return nil
	}

	_ = l.rows.Close()
	l.rows = nil

	<-l.copied

	if l.failed != nil {
		return fmt.Errorf("restore table %s.%s: %w", l.table.Schema, l.table.Name, l.failed)
	}

	return nil
}

// finish commits the transaction, and migrates data of an older version.
func (l *load) finish(ctx context.Context) error {
	if err := l.endTable(); err != nil {
		return err
	}

	for name, value := range l.contents.Sequences {
		if _, err := l.tx.Exec(ctx, `SELECT setval($1::text::regclass, $2)`, name, value); err != nil {
			return fmt.Errorf("restore sequence %s: %w", name, err)
		}
	}

	if err := execAll(ctx, l.tx, l.later); err != nil {
		return fmt.Errorf("database %s does not agree with itself: %w", l.db.Name, err)
	}

	if err := l.tx.Commit(ctx); err != nil {
		return err
	}

	return l.db.migrate(ctx, l.contents, true)
}

// restored runs the statements of Database.Restored.
func (l *load) restored(ctx context.Context) error {
	return pgx.BeginFunc(ctx, l.conn, func(tx pgx.Tx) error {
		for _, statement := range l.db.Restored {
			var arguments []any
			if statement.Gone {
				arguments = append(arguments, l.contents.Gone)
			}

			if _, err := tx.Exec(ctx, statement.SQL, arguments...); err != nil {
				return fmt.Errorf("finish database %s: %w", l.db.Name, err)
			}
		}

		return nil
	})
}
