package sessions

import (
	"context"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// AddressNamed reports whether the user wrote a web address in the session, or a search of
// the session returned it, as a whole. The user's texts are the messages of the main loop
// and the words of answers; the model writes the messages of sub-agents.
func (db *Base) AddressNamed(ctx context.Context, sessionID domain.SessionID, address string) (bool, error) {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil || u.Host == "" {
		return false, nil
	}

	rows, _ := db.Pool.Query(ctx, `
		SELECT part ->> 'text' FROM entries e, jsonb_array_elements(e.parts) part
		WHERE  e.session_id = $1 AND e.role = 'user' AND e.loop_id = $3 AND jsonb_typeof(e.parts) = 'array'
		AND    strpos(part ->> 'text', $2) > 0
		UNION ALL
		SELECT said #>> '{}' FROM questions q, jsonb_path_query(q.answer, '$.answers[*].custom') said
		WHERE  q.session_id = $1 AND q.state = 'answered' AND strpos(said #>> '{}', $2) > 0
		UNION ALL
		SELECT c.result FROM tool_calls c
		WHERE  c.session_id = $1 AND c.tool_name = 'WebSearch' AND c.status = 'done' AND strpos(c.result, $2) > 0`,
		sessionID, u.Host, domain.RootLoop)

	named := false

	var text string

	_, err = pgx.ForEachRow(rows, []any{&text}, func() error {
		named = named || domain.MentionsAddress(text, address)
		return nil
	})

	return named, pg.Fault("look for a web address in a session", err)
}
