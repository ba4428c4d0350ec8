package sessions

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// CreateShare keeps a share link, of whose token only the hash is known here.
// The caller owns the session.
func (db *Base) CreateShare(ctx context.Context, link domain.ShareLink, hash []byte, life time.Duration) (domain.ShareLink, error) {
	err := db.Pool.QueryRow(ctx, `
		INSERT INTO share_links (id, session_id, hash, redact_tool_results, redact_thinking, expires_at)
		VALUES ($1, $2, $3, $4, $5, now() + $6::interval)
		RETURNING created_at, expires_at`,
		link.ID, link.SessionID, hash, link.Redact.ToolResults, link.Redact.Thinking, life).Scan(&link.CreatedAt, &link.ExpiresAt)

	return link, pg.Fault("make share link", err)
}

// RevokeShare ends a share link of the session. Doing it again changes nothing.
func (db *Base) RevokeShare(ctx context.Context, sessionID domain.SessionID, hash []byte) error {
	tag, err := db.Pool.Exec(ctx, `
		UPDATE share_links SET revoked_at = coalesce(revoked_at, now()) WHERE hash = $1 AND session_id = $2`, hash, sessionID)
	if err == nil && tag.RowsAffected() == 0 {
		return shareNotFound()
	}

	return pg.Fault("revoke share link", err)
}

// OpenShare gives what a link leads to, and counts the view when it is one. A
// link that was revoked or has expired is gone; one of a deleted session does
// not exist.
func (db *Base) OpenShare(ctx context.Context, hash []byte, view bool) (domain.SharedSession, error) {
	shared := domain.SharedSession{ShareLink: domain.ShareLink{Redact: domain.ShareRedaction{Env: true}}}

	var over bool

	err := db.Pool.QueryRow(ctx, `
		UPDATE share_links l
		SET    views = l.views + CASE WHEN $2 AND l.revoked_at IS NULL AND l.expires_at > now() THEN 1 ELSE 0 END
		FROM   sessions s
		WHERE  l.hash = $1 AND s.id = l.session_id AND s.deleted_at IS NULL
		RETURNING l.id, l.session_id, l.redact_tool_results, l.redact_thinking, l.views, l.created_at, l.expires_at,
		          l.revoked_at IS NOT NULL OR l.expires_at <= now(), s.owner_id, s.env`, hash, view).
		Scan(&shared.ID, &shared.SessionID, &shared.Redact.ToolResults, &shared.Redact.Thinking, &shared.Views,
			&shared.CreatedAt, &shared.ExpiresAt, &over, &shared.OwnerID, &shared.Env)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return shared, shareNotFound()
	case err != nil:
		return shared, pg.Fault("open share link", err)
	case over:
		return shared, domain.Newf(domain.Gone, "share_gone", "this link was revoked or has expired")
	}

	return shared, nil
}

func shareNotFound() *domain.Error {
	return domain.Newf(domain.NotFound, "share_not_found", "this link does not exist")
}
