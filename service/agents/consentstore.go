package agents

import (
	"context"

	"everloop/infra/postgres/pg"
)

// ConsentToScript records that a user lets the init script with the digest run for them. The
// agent is a production agent or an agent instance.
func (s *Store) ConsentToScript(ctx context.Context, userID, agentID, digest string) error {
	_, err := s.db.Pool.Exec(ctx, `
		INSERT INTO init_script_consents (user_id, agent_id, digest) VALUES ($1, $2, $3)
		ON     CONFLICT (user_id, agent_id) DO UPDATE SET digest = excluded.digest`, userID, agentID, digest)

	return pg.Fault("record the consent to an init script", err)
}

// ConsentsToScript reports whether the user lets the init script with the digest run for them.
func (s *Store) ConsentsToScript(ctx context.Context, userID, agentID, digest string) (consents bool, err error) {
	err = s.db.Pool.QueryRow(ctx, `
		SELECT EXISTS (SELECT 1 FROM init_script_consents WHERE user_id = $1 AND agent_id = $2 AND digest = $3)`,
		userID, agentID, digest).Scan(&consents)

	return consents, pg.Fault("read the consent to an init script", err)
}
