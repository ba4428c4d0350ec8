package accounts

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// MaxClientSessions bounds the open sessions of one user with all clients; a further one ends
// the oldest.
const MaxClientSessions = 100

// Conditions for administrators, who can be required to have a second factor; other users
// fulfil both. WithSecondFactor: session s was started with one. HasSecondFactor: user u has an
// authenticator app or a passkey.
const (
	WithSecondFactor = `(NOT u.administrator OR s.amr ~ '\m(otp|mfa)\M')`
	HasSecondFactor  = `(NOT u.administrator OR EXISTS (SELECT 1 FROM identity.totp f WHERE f.user_id = u.id AND f.confirmed_at IS NOT NULL)
		OR EXISTS (SELECT 1 FROM identity.passkeys f WHERE f.user_id = u.id))`
)

// BySession returns the user of an open session, and records its use to the minute. The
// condition refers to the session as s. It returns pgx.ErrNoRows without a session.
func BySession(ctx context.Context, q Querier, condition string, value any) (u User, sessionID string, err error) {
	err = q.QueryRow(ctx, `
		SELECT `+Columns+`, s.id FROM identity.sessions s JOIN identity.users u ON u.id = s.user_id
		WHERE  `+condition+` AND s.ended_at IS NULL AND s.expires_at > now() AND u.deleted_at IS NULL AND NOT u.disabled`,
		value).Scan(append(u.Columns(), &sessionID)...)
	if err != nil {
		return User{}, "", err
	}

	_, err = q.Exec(ctx, `
		UPDATE identity.sessions SET last_used_at = now() WHERE id = $1 AND last_used_at < now() - interval '1 minute'`, sessionID)

	return u, sessionID, err
}

// maxRefreshTokens bounds the stored tokens of one session: 30 days of refreshes every 5
// minutes.
const maxRefreshTokens = 10_000

// ReplaceRefresh marks a refresh token as used and adds the next one of its session.
func ReplaceRefresh(ctx context.Context, tx pgx.Tx, used []byte, next, sessionID string) error {
	var batch pgx.Batch
	batch.Queue(`UPDATE identity.refresh_tokens SET used_at = now() WHERE hash = $1`, used)
	batch.Queue(`INSERT INTO identity.refresh_tokens (hash, session_id) VALUES ($1, $2)`, Hash(next), sessionID)
	batch.Queue(`UPDATE identity.sessions SET refreshed_at = now(), last_used_at = now() WHERE id = $1`, sessionID)
	// A long-lived session stores only its last tokens: an older token is rejected like a wrong
	// one.
	batch.Queue(`
		DELETE FROM identity.refresh_tokens WHERE hash IN (
			SELECT hash FROM identity.refresh_tokens WHERE session_id = $1
			    ORDER BY created_at DESC OFFSET $2)`, sessionID, maxRefreshTokens)

	return tx.SendBatch(ctx, &batch).Close()
}

// EndSession ends a session, and the sessions of clients that were signed in by it.
func EndSession(ctx context.Context, q Querier, id, why string) error {
	_, err := q.Exec(ctx, `
		UPDATE identity.sessions SET ended_at = now(), ended_by = $2
		WHERE  (id = $1 OR parent_id = $1) AND ended_at IS NULL`, id, why)

	return err
}

// EndSessions ends all sessions of a user but one.
func EndSessions(ctx context.Context, q Querier, userID, but, why string) error {
	_, err := q.Exec(ctx, `
		UPDATE identity.sessions SET ended_at = now(), ended_by = $3
		WHERE  user_id = $1 AND id <> $2 AND ended_at IS NULL`, userID, but, why)

	return err
}
