package accounts

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// Idempotency keys are kept for a day. A first request that has not finished
// within the lease died with its process, and the next one takes its place.
const (
	idempotencyKept  = 24 * time.Hour
	idempotencyLease = 2 * time.Minute
)

// idempotencyRetry is after how many seconds at most a repeat of a running request is
// advised to ask again.
const idempotencyRetry = 5

// BeginIdempotent claims the key for a request that holder runs. The request is named by the
// SHA-256 of its method, path and body; that of a form is known only once it was read, and is passed with
// its answer. It returns nil when the caller shall run the request, and the
// stored answer when it ran before. A key that belongs to another request, to one
// that still runs, or to one whose answer held a secret is a conflict.
func (a *Store) BeginIdempotent(ctx context.Context, holder, userID, key string, request []byte) (*domain.StoredAnswer, error) {
	args := pgx.NamedArgs{
		"holder": holder, "user": userID, "key": key, "request": request, "kept": idempotencyKept, "lease": idempotencyLease,
	}

	tag, err := a.db.Pool.Exec(ctx, `
		INSERT INTO idempotency_keys AS i (user_id, key, request, holder) VALUES (@user, @key, @request, @holder)
		ON CONFLICT (user_id, key) DO UPDATE
		SET    request = excluded.request, status = NULL, content_type = NULL, response = NULL, finished_at = NULL,
		       created_at = now(), holder = excluded.holder
		WHERE  i.created_at < now() - @kept::interval
		OR    (i.finished_at IS NULL AND i.request = excluded.request AND i.created_at < now() - @lease::interval)`, args)
	if err != nil {
		return nil, pg.Fault("claim idempotency key", err)
	}

	if tag.RowsAffected() == 1 {
		return nil, nil
	}

	var (
		same, finished bool
		left           float64 // seconds of the lease
		status         *int
		contentType    *string
		body, form     []byte
	)

	err = a.db.Pool.QueryRow(ctx, `
		SELECT substr(request, 1, 32) = @request, finished_at IS NOT NULL, status, content_type, response, substr(request, 33),
		       extract(epoch FROM created_at + @lease::interval - now())
		FROM   idempotency_keys WHERE user_id = @user AND key = @key`, args).
		Scan(&same, &finished, &status, &contentType, &body, &form, &left)
	switch {
	case errors.Is(err, pgx.ErrNoRows), err == nil && same && !finished: // released just now, or running
		running := domain.Newf(domain.Conflict, "idempotency_key_in_use", "a request with this Idempotency-Key is still running")
		running.RetryAfter = max(1, min(int(math.Ceil(left)), idempotencyRetry))

		return nil, running
	case err != nil:
		return nil, pg.Fault("read idempotency key", err)
	case !same:
		return nil, domain.Newf(domain.Conflict, "idempotency_key_reused", "this Idempotency-Key was used for another request")
	case status == nil:
		return nil, domain.Newf(domain.Conflict, "idempotency_secret_not_kept",
			"the request was answered with a secret, which is not kept and cannot be given again")
	}

	return &domain.StoredAnswer{Status: *status, ContentType: *contentType, Body: body, Form: form}, nil
}

// RenewIdempotent starts the lease of a claim again, for a request that takes
// longer than one.
func (a *Store) RenewIdempotent(ctx context.Context, userID, key string) error {
	_, err := a.db.Pool.Exec(ctx, `
		UPDATE idempotency_keys SET created_at = now() WHERE user_id = @user AND key = @key AND finished_at IS NULL`,
		pgx.NamedArgs{"user": userID, "key": key})

	return pg.Fault("renew idempotency key", err)
}

// AbandonIdempotent ends the leases of requests that ran on a server which is dead: the
// caller has its address. Their repeats run then.
func (a *Store) AbandonIdempotent(ctx context.Context, holder string) error {
	_, err := a.db.Pool.Exec(ctx, `
		UPDATE idempotency_keys SET created_at = now() - @lease::interval - interval '1 second'
		WHERE  holder = @holder AND finished_at IS NULL AND created_at > now() - @lease::interval`,
		pgx.NamedArgs{"holder": holder, "lease": idempotencyLease})

	return pg.Fault("end the leases of a dead server's requests", err)
}

// FinishIdempotent keeps the answer for the key's repeats; nil reports that it held
// a secret.
func (a *Store) FinishIdempotent(ctx context.Context, userID, key string, answer *domain.StoredAnswer) error {
	args := pgx.NamedArgs{"user": userID, "key": key, "status": nil, "type": nil, "body": nil, "form": []byte{}}
	if answer != nil {
		args["status"], args["type"], args["body"] = answer.Status, answer.ContentType, answer.Body
		args["form"] = append([]byte{}, answer.Form...)
	}

	_, err := a.db.Pool.Exec(ctx, `
		UPDATE idempotency_keys
		SET    status = @status, content_type = @type, response = @body, finished_at = now(), request = request || @form::bytea
		WHERE  user_id = @user AND key = @key AND finished_at IS NULL`, args)

	return pg.Fault("keep idempotent answer", err)
}

// ReleaseIdempotent frees the key of a request that came to nothing, so that it
// can be tried again.
func (a *Store) ReleaseIdempotent(ctx context.Context, userID, key string) error {
	_, err := a.db.Pool.Exec(ctx, `
		DELETE FROM idempotency_keys WHERE user_id = @user AND key = @key AND finished_at IS NULL`,
		pgx.NamedArgs{"user": userID, "key": key})

	return pg.Fault("release idempotency key", err)
}

// PruneIdempotency forgets keys that are older than a day.
func (a *Store) PruneIdempotency(ctx context.Context, limit int) (int64, error) {
	return a.db.Prune(ctx, "forget old idempotency keys", `
		DELETE FROM idempotency_keys WHERE ctid = ANY (ARRAY (
			SELECT ctid FROM idempotency_keys WHERE created_at < now() - $1::interval ORDER BY created_at
			    LIMIT $2))`, idempotencyKept, limit)
}
