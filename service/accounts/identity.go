package accounts

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// identityLock orders the first requests of one person.
const identityLock = 0x65766964 // "evid"

// IdentityUser gives the user of a person whom the identity service has signed in, and
// makes it at their first request. What the service says of the person is taken over
// when it is newer than what is known. found is false for a user whose account is closed.
//
// The first administrator of the identity service is the holder of the bootstrap key:
// one person, not two.
func (a *Store) IdentityUser(ctx context.Context, p domain.Identity) (user domain.User, found bool, err error) {
	user, found, current, err := readIdentity(ctx, a.db.Pool, p)
	if err != nil || current {
		return user, found, pg.Fault("read user", err)
	}

	err = a.db.InTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1, hashtext($2))`, identityLock, p.Issuer+" "+p.Subject); err != nil {
			return err
		}

		user, found, current, err = readIdentity(ctx, tx, p)
		if err != nil || current {
			return err
		}

		if found {
			_, err = tx.Exec(ctx, `
				UPDATE users SET name = @name, email = @email, identity_version = @version,
				       administrator = CASE WHEN identity_administrator = @administrator THEN administrator ELSE @administrator END,
				       identity_administrator = @administrator
				WHERE  id = @id`, pgx.NamedArgs{
				"id": user.ID, "name": p.Name, "email": p.Email, "version": p.Version, "administrator": p.Administrator,
			})
		} else {
			err = provision(ctx, tx, p)
		}

		if err != nil {
			return err
		}

		user, found, _, err = readIdentity(ctx, tx, p)

		return err
	})

	return user, found, pg.Fault("provision user", err)
}

// readIdentity finds the user of a person. current reports that nothing must be written:
// what is known is up to date, or the account is closed.
func readIdentity(ctx context.Context, q pg.Queryer, p domain.Identity) (user domain.User, found, current bool, err error) {
	var (
		closed  bool
		version int64
	)

	rows, _ := q.Query(ctx, `
		SELECT id, username, name, email, avatar_url, administrator, created_at, closed, identity_version
		FROM   users WHERE issuer = $1 AND subject = $2`, p.Issuer, p.Subject)

	_, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (struct{}, error) {
		return struct{}{}, row.Scan(
			&user.ID, &user.Username, &user.Name, &user.Email, &user.AvatarURL, &user.Administrator, &user.CreatedAt, &closed, &version)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return domain.User{}, false, false, nil
	}

	user.Issuer, user.Subject = p.Issuer, p.Subject

	return user, err == nil && !closed, closed || version >= p.Version, err
}

// provision makes the user of a person who comes for the first time.
func provision(ctx context.Context, tx pgx.Tx, p domain.Identity) error {
	args := pgx.NamedArgs{
		"id": domain.NewID(), "username": p.Username, "name": p.Name, "email": p.Email, "administrator": p.Administrator,
		"issuer": p.Issuer, "subject": p.Subject, "version": p.Version, "suffix": p.Subject[max(0, len(p.Subject)-12):],
		"record": domain.NewID(),
	}
	if p.First {
		tag, err := tx.Exec(ctx, `
			UPDATE users SET issuer = @issuer, subject = @subject, identity_version = @version, identity_administrator = @administrator,
			       administrator = administrator OR @administrator
			WHERE  issuer IS NULL AND deleted_at IS NULL AND id = (
			       SELECT user_id FROM api_keys WHERE bootstrap AND revoked_at IS NULL ORDER BY id DESC LIMIT 1)`, args)
		if err != nil || tag.RowsAffected() == 1 {
			return err
		}
	}
	// A user name that is taken gets the end of the subject as its suffix.
	_, err := tx.Exec(ctx, `
		WITH made AS (
		INSERT INTO users (id, username, name, email, administrator, issuer, subject, identity_version, identity_administrator)
		SELECT @id, CASE WHEN EXISTS (SELECT 1 FROM users WHERE lower(username) = lower(@username) AND deleted_at IS NULL)
		            THEN left(@username, 100) || '-' || @suffix ELSE @username END,
		       @name, @email, @administrator, @issuer, @subject, @version, @administrator
		RETURNING id)
		INSERT INTO audit (id, actor_id, action, target, details)
		SELECT @record, id, 'user.create', id, jsonb_build_object('issuer', @issuer::text) FROM made`, args)

	return err
}
