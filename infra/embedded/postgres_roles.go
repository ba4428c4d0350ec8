package embedded

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Roles of the embedded cluster. The superuser made the cluster; only [StartPostgres]
// connects as it. Everloop and Temporal connect as the application role, which owns
// its databases and may do nothing outside them: no programs, no files of the server.
const (
	superuser       = "everloop"
	applicationRole = "everloop_app"
)

// prepareDatabases makes the application role and its databases, and gives the role
// what belongs to the superuser in databases made without that role. It is repeated at every start.
func (p *Postgres) prepareDatabases(ctx context.Context) error {
	err := p.asSuperuser(ctx, "postgres", func(conn *pgx.Conn) error {
		if err := ensureApplicationRole(ctx, conn, p.appPassword); err != nil {
			return err
		}

		for _, name := range applicationDatabases {
			if err := createDatabase(ctx, conn, name); err != nil {
				return err
			}
		}

		return nil
	})
	if err != nil {
		return err
	}

	for _, name := range applicationDatabases {
		err := p.asSuperuser(ctx, name, func(conn *pgx.Conn) error { return transferOwnership(ctx, conn) })
		if err != nil {
			return fmt.Errorf("give database %s to role %s: %w", name, applicationRole, err)
		}
	}

	return nil
}

func (p *Postgres) asSuperuser(ctx context.Context, database string, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, p.SuperuserURL(database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))

	return do(conn)
}

// ensureApplicationRole makes the role, or resets its attributes and password. What
// else it was granted, as membership in another role, is revoked.
func ensureApplicationRole(ctx context.Context, conn *pgx.Conn, password string) error {
	setUp, err := statements(ctx, conn, `
		SELECT format('%s ROLE %I LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD %L',
			CASE WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = $1) THEN 'ALTER' ELSE 'CREATE' END, $1::text, $2::text)`,
		applicationRole, password)
	if err != nil {
		return fmt.Errorf("look for role %s: %w", applicationRole, err)
	}

	if _, err := conn.Exec(ctx, setUp[0]); err != nil { // not by execAll, whose error quotes the statement
		return fmt.Errorf("set up role %s: %w", applicationRole, err)
	}

	revokes, err := statements(ctx, conn, `
		SELECT format('REVOKE %I FROM %I', granted.rolname, $1::text)
		FROM pg_auth_members m JOIN pg_roles granted ON granted.oid = m.roleid JOIN pg_roles member ON member.oid = m.member
		WHERE member.rolname = $1`, applicationRole)
	if err != nil {
		return fmt.Errorf("list memberships of role %s: %w", applicationRole, err)
	}

	return execAll(ctx, conn, revokes)
}

// ownershipStatements lists, in an order that works, the statements that give the
// objects of the superuser in a database to the application role. Members of
// extensions stay; sequences and indexes of tables follow their tables.
const ownershipStatements = `
WITH own AS (SELECT oid AS role FROM pg_roles WHERE rolname = current_user),
member AS (SELECT classid, objid FROM pg_depend WHERE deptype = 'e'),
schema AS (SELECT oid, nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema')
SELECT statement FROM (
	SELECT 1 AS step, n.oid, format('ALTER SCHEMA %I OWNER TO %I', n.nspname, $1::text) AS statement
	FROM pg_namespace n JOIN own ON own.role = n.nspowner JOIN schema ON schema.oid = n.oid
	WHERE ('pg_namespace'::regclass, n.oid) NOT IN (SELECT classid, objid FROM member)
	UNION ALL
	SELECT CASE c.relkind WHEN 'S' THEN 3 ELSE 2 END, c.oid,
		format('ALTER %s %s OWNER TO %I',
			CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
			c.oid::regclass, $1::text)
	FROM pg_class c JOIN own ON own.role = c.relowner JOIN schema ON schema.oid = c.relnamespace
	WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S')
		AND ('pg_class'::regclass, c.oid) NOT IN (SELECT classid, objid FROM member)
		AND NOT EXISTS (SELECT FROM pg_depend d
			WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND c.relkind = 'S'
				AND d.deptype IN ('a', 'i') AND d.refobjsubid > 0)
	UNION ALL
	SELECT 4, t.oid, format('ALTER TYPE %s OWNER TO %I', t.oid::regtype, $1::text)
	FROM pg_type t JOIN own ON own.role = t.typowner JOIN schema ON schema.oid = t.typnamespace LEFT JOIN pg_class c ON c.oid = t.typrelid
	WHERE (t.typtype IN ('e', 'd', 'r') OR (t.typtype = 'c' AND c.relkind = 'c'))
		AND ('pg_type'::regclass, t.oid) NOT IN (SELECT classid, objid FROM member)
	UNION ALL
	SELECT 5, f.oid, format('ALTER ROUTINE %s OWNER TO %I', f.oid::regprocedure, $1::text)
	FROM pg_proc f JOIN own ON own.role = f.proowner JOIN schema ON schema.oid = f.pronamespace
	WHERE ('pg_proc'::regclass, f.oid) NOT IN (SELECT classid, objid FROM member)
	UNION ALL
	SELECT 6, d.oid, format('ALTER DATABASE %I OWNER TO %I', d.datname, $1::text)
	FROM pg_database d JOIN own ON own.role = d.datdba WHERE d.datname = current_database()
) found ORDER BY step, oid`

// transferOwnership gives a database and what is in it to the application role, all
// or nothing.
func transferOwnership(ctx context.Context, conn *pgx.Conn) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		changes, err := statements(ctx, tx, ownershipStatements, applicationRole)
		if err != nil {
			return err
		}

		return execAll(ctx, tx, changes)
	})
}

// executor is a connection or a transaction.
type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func statements(ctx context.Context, on executor, query string, args ...any) ([]string, error) {
	rows, err := on.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}

	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func execAll(ctx context.Context, on executor, statements []string) error {
	for _, statement := range statements {
		if _, err := on.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}

	return nil
}
