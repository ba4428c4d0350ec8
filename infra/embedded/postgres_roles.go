package embedded

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Roles of the embedded cluster. The superuser has created the cluster; only [StartPostgres]
// connects as it. Everloop and Temporal connect as the application role, which owns its databases
// and has no rights outside them: no programs, no files of the server.
const (
	superuser       = "everloop"
	applicationRole = "everloop_app"
)

// prepareDatabases creates the application role and its databases. It is idempotent and runs at
// every start.
func (p *Postgres) prepareDatabases(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.SuperuserURL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))

	if err := ensureApplicationRole(ctx, conn, p.appPassword); err != nil {
		return err
	}

	for _, name := range applicationDatabases {
		if err := createDatabase(ctx, conn, name); err != nil {
			return err
		}
	}

	return nil
}

// ensureApplicationRole creates the role, or resets its attributes and password. It revokes other
// grants, such as membership in another role.
func ensureApplicationRole(ctx context.Context, conn *pgx.Conn, password string) error {
	setUp, err := statements(ctx, conn, `
		SELECT format('%s ROLE %I LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD %L',
			CASE WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = $1) THEN 'ALTER' ELSE 'CREATE' END, $1::text, $2::text)`,
		applicationRole, password)
	if err != nil {
		return fmt.Errorf("look for role %s: %w", applicationRole, err)
	}

	if _, err := conn.Exec(ctx, setUp[0]); err != nil { // not by execAll, whose errors quote the statement
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

func statements(ctx context.Context, on *pgx.Conn, query string, args ...any) ([]string, error) {
	rows, err := on.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}

	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func execAll(ctx context.Context, on *pgx.Conn, statements []string) error {
	for _, statement := range statements {
		if _, err := on.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}

	return nil
}
