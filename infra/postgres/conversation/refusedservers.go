package conversation

import (
	"context"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// RefusedServers returns the tool servers of a session whose tools the server of a model has
// refused.
func (db *Base) RefusedServers(ctx context.Context, sessionID domain.SessionID, model string) ([]domain.RefusedServer, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT server, tools FROM refused_tool_servers WHERE session_id = $1 AND model = $2`, sessionID, model)
	servers, err := pgx.CollectRows(rows, pgx.RowToStructByPos[domain.RefusedServer])

	return servers, pg.Fault("read refused tool servers", err)
}

// RefuseServers records that the server of a model has refused the tools of tool servers.
func (db *Base) RefuseServers(ctx context.Context, sessionID domain.SessionID, model string, servers []domain.RefusedServer) error {
	names, digests := make([]string, len(servers)), make([]string, len(servers))
	for i, s := range servers {
		names[i], digests[i] = s.Server, s.Tools
	}

	_, err := db.Pool.Exec(ctx, `
		INSERT INTO refused_tool_servers (session_id, model, server, tools)
		SELECT $1, $2, s, t FROM unnest($3::text[], $4::text[]) AS r (s, t) ON CONFLICT DO NOTHING`,
		sessionID, model, names, digests)

	return pg.Fault("record refused tool servers", err)
}
