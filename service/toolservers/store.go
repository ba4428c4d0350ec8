// Package toolservers is the room of configured tool servers (MCP): their rows with encrypted
// environments and headers, the pinned definitions of their tools, and the states of
// connections. Connections themselves are in infra/mcp.
package toolservers

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/toolserver"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
	"everloop/infra/secrets"
)

// maxMCPServers bounds the tool servers of one scope: of the service, of a
// user's solution, of a session.
const maxMCPServers = 32

// Store reads and writes tool servers. Their environments and headers are encrypted at rest; the
// records that it returns contain them in clear text. The error is mcp_server_not_found for a
// server that the caller cannot see.
type Store struct {
	db  *pg.DB
	box *secrets.Box
}

// New returns a store on a database that encrypts with box.
func New(db *pg.DB, box *secrets.Box) *Store { return &Store{db, box} }

// mcpColumns select a toolserver.Record from the rows m and u, its creator.
const mcpColumns = `
	m.id, m.scope, m.solution_id, m.session_id, m.owner_id, m.name, m.preset, m.transport, m.command, m.args, m.url, m.sealed,
	m.tools, m.timeout_s, m.enabled, m.trust_hints, m.created_at, m.updated_at, u.administrator,
	(SELECT count(*) FROM mcp_tools p WHERE p.server_id = m.id AND p.proposed IS NOT NULL)`

func scanMCPServer(row pgx.CollectableRow) (toolserver.Record, error) {
	var s toolserver.Record

	err := row.Scan(&s.ID, &s.Scope, &s.SolutionID, &s.SessionID, &s.OwnerID, &s.Name, &s.Preset, &s.Transport, &s.Command, &s.Args,
		&s.URL, &s.Sealed, &s.Tools, &s.TimeoutS, &s.Enabled, &s.TrustHints, &s.CreatedAt, &s.UpdatedAt, &s.Trusted, &s.ProposedTools)

	return s, err
}

func mcpServerNotFound(id string) *domain.Error {
	return domain.Newf(domain.NotFound, toolserver.CodeNotFound, "tool server %s does not exist", id)
}

// mcpFault returns a conflict when the name is used already in the scope.
func mcpFault(doing, name string, err error) error {
	if pg.HasState(err, pg.UniqueViolation) {
		return domain.Newf(domain.Conflict, "mcp_server_name_taken", "a tool server named %s exists already in this scope", name)
	}

	return pg.Fault(doing, err)
}

func mcpArgs(s toolserver.Record) pgx.NamedArgs {
	return pgx.NamedArgs{
		"id": s.ID, "scope": s.Scope, "solution": s.SolutionID, "session": s.SessionID, "owner": s.OwnerID, "name": s.Name,
		"preset": s.Preset, "transport": s.Transport, "command": s.Command, "args": orNone(s.Args), "url": s.URL,
		"sealed": s.Sealed, "tools": orNone(s.Tools), "timeout": s.TimeoutS, "enabled": s.Enabled, "hints": s.TrustHints,
	}
}

func orNone(list []string) []string {
	if list == nil {
		return []string{}
	}

	return list
}

// CreateMCPServer stores a new tool server. The caller has checked that the owner can create it.
func (c *Store) CreateMCPServer(ctx context.Context, s toolserver.Record) (made toolserver.Record, err error) {
	s.ID = domain.NewID()
	if err := c.seal(&s); err != nil {
		return s, err
	}

	err = c.db.InTx(ctx, func(tx pgx.Tx) error {
		// The lock serialises the creations of one user, so that the count is correct.
		if _, err := tx.Exec(ctx, `SELECT 1 FROM users WHERE id = $1 FOR UPDATE`, s.OwnerID); err != nil {
			return err
		}

		var count int

		err := tx.QueryRow(ctx, `
			SELECT CASE @scope
			       WHEN 'service' THEN (SELECT count(*) FROM mcp_servers WHERE scope = 'service')
			       WHEN 'solution' THEN (SELECT count(*) FROM mcp_servers WHERE scope = 'solution' AND solution_id = @solution
			           AND owner_id = @owner)
			       ELSE (SELECT count(*) FROM mcp_servers WHERE scope = 'session' AND session_id = @session) END`,
			pgx.NamedArgs{"scope": string(s.Scope), "solution": s.SolutionID, "session": s.SessionID, "owner": s.OwnerID}).Scan(&count)
		if err != nil {
			return err
		}

		if count >= maxMCPServers {
			return domain.Newf(domain.Conflict, "too_many_mcp_servers", "a scope can have %d tool servers", maxMCPServers)
		}

		rows, _ := tx.Query(ctx, `
			WITH m AS (
				INSERT INTO mcp_servers (id, scope, solution_id, session_id, owner_id, name, preset, transport, command, args, url, sealed,
				                         tools, timeout_s, enabled, trust_hints)
				VALUES (@id, @scope, @solution, @session, @owner, @name, @preset, @transport, @command, @args, @url, @sealed,
				        @tools, @timeout, @enabled, @hints)
				RETURNING *)
			SELECT `+mcpColumns+` FROM m JOIN users u ON u.id = m.owner_id`, mcpArgs(s))
		made, err = pgx.CollectExactlyOneRow(rows, scanMCPServer)

		return err
	})

	return c.opened(made, mcpFault("create tool server", s.Name, err))
}

// MCPServers returns the tool servers that a user can see: the servers of the service and the
// user's own.
func (c *Store) MCPServers(ctx context.Context, userID string) ([]toolserver.Record, error) {
	rows, _ := c.db.Pool.Query(ctx, `
		SELECT `+mcpColumns+`
		FROM   mcp_servers m JOIN users u ON u.id = m.owner_id
		WHERE  m.scope = 'service'
		UNION ALL
		SELECT `+mcpColumns+`
		FROM   mcp_servers m JOIN users u ON u.id = m.owner_id
		WHERE  m.owner_id = @user AND m.scope <> 'service'
		ORDER  BY 1`, pgx.NamedArgs{"user": userID})
	servers, err := pgx.CollectRows(rows, scanMCPServer)

	return c.openAll(servers, pg.Fault("list tool servers", err))
}

// MCPServer returns one tool server that the caller can see: one of the service, their own, or
// any for an administrator.
func (c *Store) MCPServer(ctx context.Context, caller domain.User, id string) (toolserver.Record, error) {
	return c.opened(mcpServer(ctx, c.db.Pool, caller, id, ""))
}

func mcpServer(ctx context.Context, q pg.Queryer, caller domain.User, id, lock string) (toolserver.Record, error) {
	rows, _ := q.Query(ctx, `
		SELECT `+mcpColumns+`
		FROM   mcp_servers m JOIN users u ON u.id = m.owner_id
		WHERE  m.id = @id AND (m.scope = 'service' OR m.owner_id = @user OR @administrator) `+lock,
		pgx.NamedArgs{"id": id, "user": caller.ID, "administrator": caller.Administrator})

	s, err := pgx.CollectExactlyOneRow(rows, scanMCPServer)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, mcpServerNotFound(id)
	}

	return s, pg.Fault("read tool server", err)
}

// ChangeMCPServer changes a tool server that the caller can see. An error of change, such as a
// missing permission, rolls back.
func (c *Store) ChangeMCPServer(
	ctx context.Context,
	caller domain.User,
	id string,
	change func(*toolserver.Record) error,
) (changed toolserver.Record, err error) {
	err = c.db.InTx(ctx, func(tx pgx.Tx) error {
		s, err := c.opened(mcpServer(ctx, tx, caller, id, "FOR UPDATE OF m"))
		if err != nil {
			return err
		}

		before := s.MCPServer

		if err := change(&s); err != nil {
			return err
		}

		if err := c.seal(&s); err != nil {
			return err
		}

		if !toolserver.SameReceiver(before, s.MCPServer) { // the tools of another program or address
			if _, err := tx.Exec(ctx, `DELETE FROM mcp_tools WHERE server_id = $1`, id); err != nil {
				return err
			}
		}

		rows, _ := tx.Query(ctx, `
			WITH m AS (
				UPDATE mcp_servers
				SET    name = @name, preset = @preset, transport = @transport, command = @command, args = @args, url = @url,
				       sealed = @sealed, tools = @tools, timeout_s = @timeout, enabled = @enabled, trust_hints = @hints, updated_at = now()
				WHERE  id = @id AND owner_id = @owner
				RETURNING *)
			SELECT `+mcpColumns+` FROM m JOIN users u ON u.id = m.owner_id`, mcpArgs(s))
		changed, err = pgx.CollectExactlyOneRow(rows, scanMCPServer)

		return mcpFault("change tool server", s.Name, err)
	})

	return c.opened(changed, err)
}

// DeleteMCPServer deletes a tool server that the caller can see, unless may returns an error. The
// record that may receives has no secrets.
func (c *Store) DeleteMCPServer(ctx context.Context, caller domain.User, id string, may func(toolserver.Record) error) error {
	err := c.db.InTx(ctx, func(tx pgx.Tx) error {
		s, err := mcpServer(ctx, tx, caller, id, "FOR UPDATE OF m")
		if err != nil {
			return err
		}

		if err := may(s); err != nil {
			return err
		}

		_, err = tx.Exec(ctx, `DELETE FROM mcp_servers WHERE id = @id AND owner_id = @owner`, pgx.NamedArgs{"id": id, "owner": s.OwnerID})

		return err
	})

	return pg.Fault("delete tool server", err)
}

// SessionMCPServers returns the tool servers of a session, including disabled ones: a disabled
// server replaces one of a wider scope with its name.
func (c *Store) SessionMCPServers(ctx context.Context, sessionID domain.SessionID) ([]toolserver.Record, error) {
	rows, _ := c.db.Pool.Query(ctx, `
		SELECT `+mcpColumns+`, s.owner_id
		FROM   sessions s, mcp_servers m JOIN users u ON u.id = m.owner_id
		WHERE  s.id = @session AND m.scope = 'service'
		UNION ALL
		SELECT `+mcpColumns+`, s.owner_id
		FROM   sessions s JOIN mcp_servers m ON m.solution_id = s.solution_id JOIN users u ON u.id = m.owner_id
		WHERE  s.id = @session AND m.scope = 'solution' AND (m.owner_id = s.owner_id OR u.administrator)
		UNION ALL
		SELECT `+mcpColumns+`, s.owner_id
		FROM   sessions s JOIN mcp_servers m ON m.session_id = s.id JOIN users u ON u.id = m.owner_id
		WHERE  s.id = @session AND m.scope = 'session'`, pgx.NamedArgs{"session": sessionID})

	var owner string

	servers, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s toolserver.Record, err error) {
		err = row.Scan(&s.ID, &s.Scope, &s.SolutionID, &s.SessionID, &s.OwnerID, &s.Name, &s.Preset, &s.Transport, &s.Command, &s.Args,
			&s.URL, &s.Sealed, &s.Tools, &s.TimeoutS, &s.Enabled, &s.TrustHints, &s.CreatedAt, &s.UpdatedAt, &s.Trusted,
			&s.ProposedTools, &owner)

		return s, err
	})
	if err != nil {
		return nil, pg.Fault("read the tool servers of a session", err)
	}

	return c.openAll(toolserver.Effective(servers, owner), nil)
}

// MCPSession returns the columns of a session that a connection with a tool server needs.
func (c *Store) MCPSession(ctx context.Context, id domain.SessionID) (domain.Session, error) {
	return sessions.AtWork(ctx, c.db.Pool, id)
}

// MCPConnections returns the last known states of a session's connections.
func (c *Store) MCPConnections(ctx context.Context, sessionID domain.SessionID) ([]toolserver.Connection, error) {
	rows, _ := c.db.Pool.Query(ctx, `
		SELECT session_id, name, fingerprint, status, error, tools, updated_at
		FROM   mcp_connections
		WHERE  session_id = $1`, sessionID)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[toolserver.Connection])

	return list, pg.Fault("read connections with tool servers", err)
}

// SaveMCPConnection stores the state of a connection, unless its session is deleted.
func (c *Store) SaveMCPConnection(ctx context.Context, connection toolserver.Connection) error {
	if connection.Tools == nil {
		connection.Tools = []toolserver.Tool{}
	}

	_, err := c.db.Pool.Exec(ctx, `
		INSERT INTO mcp_connections (session_id, name, fingerprint, status, error, tools)
		SELECT id, @name, @fingerprint, @status, @error, @tools FROM sessions WHERE id = @session AND deleted_at IS NULL
		ON CONFLICT (session_id, name) DO UPDATE
		SET    fingerprint = excluded.fingerprint, status = excluded.status, error = excluded.error, tools = excluded.tools,
		    updated_at = now()`,
		pgx.NamedArgs{
			"session":     connection.SessionID,
			"name":        connection.Name,
			"fingerprint": connection.Fingerprint,
			"status":      connection.Status,
			"error":       connection.Error,
			"tools":       connection.Tools,
		})

	return pg.Fault("store the state of a connection with a tool server", err)
}
