package toolservers

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/toolserver"
	"everloop/infra/postgres/pg"
)

// MCPTools returns the pinned tools of a server, by name.
func (c *Store) MCPTools(ctx context.Context, serverID string) ([]toolserver.Pin, error) {
	return mcpTools(ctx, c.db.Pool, serverID)
}

func mcpTools(ctx context.Context, q pg.Queryer, serverID string) ([]toolserver.Pin, error) {
	rows, _ := q.Query(ctx, `
		SELECT tool, accepted, proposed, proposed_at FROM mcp_tools WHERE server_id = $1 ORDER BY tool`, serverID)
	pins, err := pgx.CollectRows(rows, pgx.RowToStructByPos[toolserver.Pin])

	return pins, pg.Fault("read the tools of a tool server", err)
}

// PinMCPTools compares a server's list of tools with its pins, stores the differences, and
// returns the pins of the tools in the list.
func (c *Store) PinMCPTools(ctx context.Context, server toolserver.Record, list []toolserver.Tool) ([]toolserver.Pin, error) {
	known, err := c.MCPTools(ctx, server.ID)
	if err != nil {
		return nil, err
	}

	if pins := server.Pins(known, list); len(changedPins(known, pins)) == 0 && len(vanished(known, list)) == 0 {
		return pins, nil
	}

	var pins []toolserver.Pin

	err = c.db.InTx(ctx, func(tx pgx.Tx) error {
		// The lock lets one of two sessions that connect first pin the tools.
		if _, err := tx.Exec(ctx, `SELECT 1 FROM mcp_servers WHERE id = $1 FOR UPDATE`, server.ID); err != nil {
			return err
		}

		if known, err = mcpTools(ctx, tx, server.ID); err != nil {
			return err
		}

		pins = server.Pins(known, list)
		for _, pin := range changedPins(known, pins) {
			if err := putMCPTool(ctx, tx, server.ID, pin); err != nil {
				return err
			}
		}

		_, err := tx.Exec(ctx, `DELETE FROM mcp_tools WHERE server_id = $1 AND tool = ANY ($2)`, server.ID, vanished(known, list))

		return err
	})

	return pins, pg.Fault("pin the tools of a tool server", err)
}

// changedPins returns the pins that differ from the known ones.
func changedPins(known, pins []toolserver.Pin) []toolserver.Pin {
	before := make(map[string]toolserver.Pin, len(known))
	for _, pin := range known {
		before[pin.Tool] = pin
	}

	var changed []toolserver.Pin

	for _, pin := range pins {
		if old := before[pin.Tool]; !pin.Accepted.Same(old.Accepted) || !pin.Proposed.Same(old.Proposed) {
			changed = append(changed, pin)
		}
	}

	return changed
}

// vanished returns the known tools that were never accepted and are missing from the list. They are
// deleted, so that a server cannot fill the table.
func vanished(known []toolserver.Pin, list []toolserver.Tool) []string {
	names := []string{}

	for _, pin := range known {
		if pin.Accepted == nil && !slices.ContainsFunc(list, func(t toolserver.Tool) bool { return t.Name == pin.Tool }) {
			names = append(names, pin.Tool)
		}
	}

	return names
}

func putMCPTool(ctx context.Context, tx pgx.Tx, serverID string, pin toolserver.Pin) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO mcp_tools (server_id, tool, accepted, proposed, proposed_at)
		VALUES (@server, @tool, @accepted, @proposed, CASE WHEN @proposed::json IS NOT NULL THEN now() END)
		ON CONFLICT (server_id, tool) DO UPDATE
		SET    accepted = excluded.accepted, proposed = excluded.proposed, proposed_at = excluded.proposed_at`,
		pgx.NamedArgs{"server": serverID, "tool": pin.Tool, "accepted": pin.Accepted, "proposed": pin.Proposed})

	return err
}

// AcceptMCPTools accepts proposed definitions of tools, by name and digest, of a server that
// the caller can see, unless may returns an error. The record that may receives has no secrets.
// The error is tool_definition_changed when a definition is not proposed any longer; then none is
// accepted.
func (c *Store) AcceptMCPTools(
	ctx context.Context, caller domain.User, id string, digests map[string]string, may func(toolserver.Record) error,
) (toolserver.Record, error) {
	var server toolserver.Record

	err := c.db.InTx(ctx, func(tx pgx.Tx) error {
		var err error
		if server, err = mcpServer(ctx, tx, caller, id, "FOR UPDATE OF m"); err != nil {
			return err
		}

		if err := may(server); err != nil {
			return err
		}

		pins, err := mcpTools(ctx, tx, id)
		if err != nil {
			return err
		}

		proposed := map[string]*toolserver.Tool{}
		for _, pin := range pins {
			proposed[pin.Tool] = pin.Proposed
		}

		for tool, digest := range digests {
			definition := proposed[tool]
			if definition == nil || definition.Digest() != digest {
				return domain.Newf(domain.Conflict, "tool_definition_changed", "tool %s: its server does not propose this definition", tool)
			}

			if err := putMCPTool(ctx, tx, id, toolserver.Pin{Tool: tool, Accepted: definition}); err != nil {
				return err
			}

			server.ProposedTools--
		}

		return nil
	})

	return c.opened(server, pg.Fault("accept tools of a tool server", err))
}

// ModelRefusals returns the tool servers of a session whose tools model servers have refused,
// each with the last time.
func (c *Store) ModelRefusals(ctx context.Context, sessionID domain.SessionID) ([]domain.ModelRefusal, error) {
	rows, _ := c.db.Pool.Query(ctx, `
		SELECT   subject, model, max(learned_at)
		FROM     model_limits
		WHERE    session_id = $1 AND kind = 'tool_server' AND learned_at > now() - $2::interval
		GROUP BY subject, model
		ORDER BY subject, model`, sessionID, domain.ModelLimitFor)
	refusals, err := pgx.CollectRows(rows, pgx.RowToStructByPos[domain.ModelRefusal])

	return refusals, pg.Fault("read the refusals of model servers", err)
}
