package registry

import (
	"context"
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5"

	"everloop/companions/credentials"
	"everloop/companions/edge"
)

// writer returns the caller of a write request.
func (s *Service) writer(r *http.Request) (credentials.Caller, error) {
	caller, err := s.cfg.Credentials.Check(r.Context(), edge.Client(r), credentials.Bearer(r))
	if err != nil {
		return caller, err
	}

	return caller, credentials.Require(caller, credentials.SkillsWrite)
}

// administrator returns the caller of an administrators-only request.
func (s *Service) administrator(r *http.Request) (credentials.Caller, error) {
	caller, err := s.writer(r)
	if err == nil && !caller.Administers() {
		err = edge.Refuse(http.StatusForbidden, "administrator_required", "this is for administrators")
	}

	return caller, err
}

// querier is a connection, a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// mayPublish reports whether a caller is a member of an existing organisation, or an
// administrator. exists is false if the organisation does not exist.
func mayPublish(ctx context.Context, q querier, org string, caller credentials.Caller) (exists bool, err error) {
	var (
		name   string
		member bool
	)

	err = q.QueryRow(ctx, `
		SELECT o.name, EXISTS (SELECT FROM registry.members m WHERE m.org = o.name AND m.user_id = $2)
		FROM registry.organizations o WHERE lower(o.name) = lower($1)`, org, caller.ID).Scan(&name, &member)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	case name != org:
		return true, edge.Refuse(http.StatusConflict, "organization_exists", "there is an organisation whose name differs in case only")
	case !member && !caller.Administers():
		return true, edge.Refuse(http.StatusForbidden, "not_a_member", "only members of the organisation may change its skills")
	}

	return true, nil
}

// maxOrganizations bounds the organisations that one user can create.
const maxOrganizations = 20

// claim creates an organisation for its first publisher, unless it exists.
func claim(ctx context.Context, tx pgx.Tx, org string, caller credentials.Caller) error {
	// Serialized for each user, so that the count is exact.
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('registry/' || $1, 0))`, caller.ID); err != nil {
		return err
	}

	exists, err := mayPublish(ctx, tx, org, caller)
	if exists || err != nil {
		return err
	}

	var count int
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM registry.organizations WHERE created_by = $1`, caller.ID).Scan(&count); err != nil {
		return err
	}

	if count >= maxOrganizations && !caller.Administers() {
		return edge.Refuse(http.StatusConflict, "too_many_organizations",
			"a user makes at most %d organisations", maxOrganizations)
	}

	made, err := tx.Exec(ctx, `
		INSERT INTO registry.organizations (name, display_name, created_by) VALUES ($1, $1, $2) ON CONFLICT DO NOTHING`, org, caller.ID)
	if err != nil {
		return err
	}

	if made.RowsAffected() == 0 { // another user has created it first
		_, err := mayPublish(ctx, tx, org, caller)
		return err
	}

	_, err = tx.Exec(ctx, `INSERT INTO registry.members (org, user_id) VALUES ($1, $2)`, org, caller.ID)

	return err
}
