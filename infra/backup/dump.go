package backup

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// databasePart is the prefix of the entries of databases.
const databasePart = "database"

// Database is one PostgreSQL database. Its tables are created by migrations, so the backup
// contains rows only.
type Database struct {
	Name    string // in the names of entries, one segment
	URL     string
	Schemas []Schema
	// Live is a query for the ids of rows with files and objects; empty: none.
	Live string
	// Restored are statements that run after the restore of all parts. A statement with $1
	// receives the ids that were deleted during the backup, as a text array.
	Restored []Statement
}

// Statement is a statement that runs after a restore.
type Statement struct {
	SQL  string
	Gone bool // it receives the ids deleted during the backup
}

// Schema is a schema that migrations maintain, with the table goose_db_version.
type Schema struct {
	Name   string
	Newest int64 // newest version of this program
	// Migrate migrates the schema to a version.
	Migrate func(ctx context.Context, url string, version int64) error
}

const versionTable = "goose_db_version"

// chunk is the size of an entry of rows, in bytes. Rows are split, because the size of an entry
// precedes it, and a table can exceed memory.
const chunk = 4 << 20

// snapshot is a transaction with a snapshot of the database.
type snapshot struct {
	db   Database
	conn *pgx.Conn
	at   time.Time
	live map[string]bool
}

// openSnapshot starts the transaction, whose first statement takes the snapshot.
func openSnapshot(ctx context.Context, db Database) (*snapshot, error) {
	conn, err := connect(ctx, db)
	if err != nil {
		return nil, err
	}

	s := &snapshot{db: db, conn: conn}

	err = s.begin(ctx)
	if err != nil {
		s.close(ctx)
		return nil, fmt.Errorf("read database %s: %w", db.Name, err)
	}

	return s, nil
}

// connect connects without quoting the URL, which contains a password, in errors.
func connect(ctx context.Context, db Database) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(db.URL)
	if err != nil {
		return nil, fmt.Errorf("the address of database %s is not valid", db.Name)
	}

	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to database %s: %w", db.Name, err)
	}

	return conn, nil
}

func (s *snapshot) begin(ctx context.Context) error {
	if _, err := s.conn.Exec(ctx, `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`); err != nil {
		return err
	}

	if err := s.conn.QueryRow(ctx, `SELECT now()`).Scan(&s.at); err != nil {
		return err
	}

	ids, err := s.ids(ctx, s.conn)
	s.live = ids

	return err
}

func (s *snapshot) close(ctx context.Context) { _ = s.conn.Close(context.WithoutCancel(ctx)) }

// ids returns the ids of the Live query.
func (s *snapshot) ids(ctx context.Context, conn *pgx.Conn) (map[string]bool, error) {
	if s.db.Live == "" {
		return nil, nil
	}

	rows, err := conn.Query(ctx, s.db.Live)
	if err != nil {
		return nil, err
	}

	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	found := make(map[string]bool, len(all))

	for _, id := range all {
		found[id] = true
	}

	return found, err
}

// write writes all rows of the snapshot, and ends its transaction.
func (s *snapshot) write(ctx context.Context, a *archive) (Contents, error) {
	contents, err := s.contents(ctx)
	if err != nil {
		return contents, fmt.Errorf("read database %s: %w", s.db.Name, err)
	}

	for _, table := range contents.Tables {
		if err := s.rows(ctx, a, table); err != nil {
			return contents, fmt.Errorf("read table %s.%s: %w", table.Schema, table.Name, err)
		}
	}

	// Sequences are not transactional: read last, they are past every value in use.
	contents.Sequences, err = s.sequences(ctx)
	if err == nil {
		_, err = s.conn.Exec(ctx, `COMMIT`)
	}

	if err != nil {
		return contents, fmt.Errorf("read database %s: %w", s.db.Name, err)
	}

	return contents, nil
}

// contents lists the schemas and tables. A missing schema is skipped: its service has never run.
func (s *snapshot) contents(ctx context.Context) (Contents, error) {
	c := Contents{Schemas: map[string]int64{}, Gone: []string{}}

	for _, schema := range s.db.Schemas {
		var exists bool

		name := pgx.Identifier{schema.Name, versionTable}.Sanitize()
		if err := s.conn.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, name).Scan(&exists); err != nil {
			return c, err
		}

		if !exists {
			continue
		}

		var version int64
		if err := s.conn.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM `+name).Scan(&version); err != nil {
			return c, err
		}

		if version > schema.Newest {
			return c, fmt.Errorf("schema %s has version %d, this program knows %d: use the program that runs the service",
				schema.Name, version, schema.Newest)
		}

		c.Schemas[schema.Name] = version

		tables, err := listTables(ctx, s.conn, schema.Name)
		if err != nil {
			return c, err
		}

		c.Tables = append(c.Tables, tables...)
	}

	if len(c.Schemas) == 0 {
		return c, errors.New("it contains no data of Everloop")
	}

	return c, nil
}

// listTables lists the tables of a schema with the columns that can be written.
func listTables(ctx context.Context, conn *pgx.Conn, schema string) ([]Table, error) {
	rows, err := conn.Query(ctx, `
		SELECT n.nspname AS schema, c.relname AS name, array_agg(a.attname::text ORDER BY a.attnum) AS columns
		FROM   pg_class c
		JOIN   pg_namespace n ON n.oid = c.relnamespace
		JOIN   pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
		WHERE  n.nspname = $1 AND c.relkind = 'r' AND c.relname <> $2
		GROUP  BY 1, 2 ORDER BY 1, 2`, schema, versionTable)
	if err != nil {
		return nil, err
	}

	return pgx.CollectRows(rows, pgx.RowToStructByName[Table])
}

// sequences returns the last value of each sequence of the schemas.
func (s *snapshot) sequences(ctx context.Context) (map[string]int64, error) {
	names := make([]string, 0, len(s.db.Schemas))
	for _, schema := range s.db.Schemas {
		names = append(names, schema.Name)
	}

	rows, err := s.conn.Query(ctx, `
		SELECT format('%I.%I', schemaname, sequencename), last_value FROM pg_sequences
		WHERE  schemaname = ANY ($1) AND last_value IS NOT NULL AND sequencename NOT LIKE $2`, names, versionTable+"%")
	if err != nil {
		return nil, err
	}

	values := map[string]int64{}

	var (
		name  string
		value int64
	)

	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		values[name] = value
		return nil
	})

	return values, err
}

func (t Table) identifier() string { return pgx.Identifier{t.Schema, t.Name}.Sanitize() }

// list returns the columns, quoted and separated by commas.
func (t Table) list() string {
	text := ""

	for i, column := range t.Columns {
		if i > 0 {
			text += ", "
		}

		text += pgx.Identifier{column}.Sanitize()
	}

	return text
}

// entry returns the directory of the table's entries.
func (t Table) entry(database string) string {
	return path.Join(databasePart, database, t.Schema+"."+t.Name)
}

// rows writes the rows of a table as PostgreSQL's text format, which every version reads.
func (s *snapshot) rows(ctx context.Context, a *archive, table Table) error {
	out := &chunks{a: a, dir: table.entry(s.db.Name)}

	_, err := s.conn.PgConn().CopyTo(ctx, out, `COPY `+table.identifier()+` (`+table.list()+`) TO STDOUT`)
	if err == nil {
		err = out.flush()
	}

	return err
}

// chunks splits written data into entries.
type chunks struct {
	a      *archive
	dir    string
	n      int
	buffer []byte
}

func (c *chunks) Write(p []byte) (int, error) {
	c.buffer = append(c.buffer, p...)
	if len(c.buffer) < chunk {
		return len(p), nil
	}

	return len(p), c.flush()
}

func (c *chunks) flush() error {
	if len(c.buffer) == 0 {
		return nil
	}

	c.n++
	err := c.a.bytes(fmt.Sprintf("%s/%06d", c.dir, c.n), c.buffer)
	c.buffer = c.buffer[:0]

	return err
}

// gone returns the ids that were live in the snapshot and are not now.
func (s *snapshot) gone(ctx context.Context) ([]string, error) {
	conn, err := connect(ctx, s.db)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))

	now, err := s.ids(ctx, conn)
	if err != nil {
		return nil, fmt.Errorf("look for what was deleted: %w", err)
	}

	gone := []string{}

	for id := range s.live {
		if !now[id] {
			gone = append(gone, id)
		}
	}

	slices.Sort(gone)

	return gone, nil
}
