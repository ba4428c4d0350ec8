package triggers

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/trigger"
	"everloop/infra/postgres/pg"
)

// hook is what a request to a trigger's address is verified with.
type hook struct {
	id     string
	auth   trigger.Auth
	sealed []byte
}

// hook reads the scheme and the secret of a trigger with an address.
func (s *Store) hook(ctx context.Context, id string) (h hook, err error) {
	h.id = id

	err = s.db.Pool.QueryRow(ctx, `SELECT auth, sealed FROM triggers WHERE id = $1 AND kind = 'webhook'`, id).Scan(&h.auth, &h.sealed)
	if errors.Is(err, pgx.ErrNoRows) {
		err = triggerNotFound(id)
	}

	return h, pg.Fault("read trigger", err)
}

// arrival is a verified event, before it is recorded.
type arrival struct {
	id      string // of the delivery
	key     string
	derived bool // the key is a digest
	payload trigger.Payload
	body    []byte
}

// decision is the outcome of a delivery; without one it is to be carried out.
type decision struct {
	outcome       trigger.Outcome
	reason, error string
}

// recorded is the answer to an arrival.
type recorded struct {
	id     string // of the delivery
	repeat bool
	due    bool          // its workflow must be started
	wait   time.Duration // it was rejected: when to try again
}

// record writes the row of an arrival, once for each key. decide decides whether it is carried
// out; it is called for arrivals that the rate allows.
func (s *Store) record(
	ctx context.Context, triggerID string, in arrival, decide func(spec trigger.Spec) decision,
) (out recorded, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		out = recorded{id: in.id}

		r, err := lockRate(ctx, tx, triggerID)
		if err != nil {
			return err
		}

		first, found, err := firstOf(ctx, tx, triggerID, in, r.now)
		if err != nil {
			return err
		}

		if found {
			out.id, out.repeat = first, true
			return r.refuse(ctx, tx, in, decision{outcome: trigger.Duplicate}, first)
		}

		next, wait := trigger.Take(r.next, r.now, r.trigger.RateLimit)
		if wait > 0 {
			out.wait = wait
			return r.refuse(ctx, tx, in, decision{outcome: trigger.RateLimited}, "")
		}

		if _, err := tx.Exec(ctx, `UPDATE triggers SET rate_next = $2, last_delivery_at = $3 WHERE id = $1`,
			triggerID, next, r.now); err != nil {
			return err
		}

		d := r.paused()
		if d.outcome == "" {
			d = decide(r.trigger.Spec)
		}

		out.due = d.outcome == ""

		return insert(ctx, tx, triggerID, in, d, "")
	})

	return out, pg.Fault("record a delivery", err)
}

// rate is a locked trigger with the states of its limits.
type rate struct {
	trigger       trigger.Trigger
	closed        bool // the account of its owner
	next, refused time.Time
	now           time.Time
}

func lockRate(ctx context.Context, tx pgx.Tx, triggerID string) (r rate, err error) {
	into, done := triggerFields(&r.trigger)

	err = tx.QueryRow(ctx, `
		SELECT `+triggerColumns+`, u.closed, greatest(t.rate_next, '2000-01-01'), greatest(t.refused_next, '2000-01-01'), clock_timestamp()
		FROM   triggers t JOIN users u ON u.id = t.owner_id WHERE t.id = $1 FOR NO KEY UPDATE OF t`, triggerID).
		Scan(append(into, &r.closed, &r.next, &r.refused, &r.now)...)
	if errors.Is(err, pgx.ErrNoRows) {
		err = triggerNotFound(triggerID)
	}

	done()

	return r, err
}

// paused returns why the trigger starts nothing now.
func (r rate) paused() decision { return pausedBy(r.trigger.Enabled, r.closed) }

func pausedBy(enabled, closed bool) decision {
	switch {
	case closed:
		return decision{trigger.Paused, trigger.ReasonAccountClosed, "the account of its owner is closed"}
	case !enabled:
		return decision{trigger.Paused, trigger.ReasonDisabled, "the trigger is disabled"}
	default:
		return decision{}
	}
}

// refuse records a delivery that starts nothing, unless there were too many of them.
func (r rate) refuse(ctx context.Context, tx pgx.Tx, in arrival, d decision, first string) error {
	next, wait := trigger.TakeRefusal(r.refused, r.now)
	if wait > 0 {
		return nil
	}

	if _, err := tx.Exec(ctx, `UPDATE triggers SET refused_next = $2 WHERE id = $1`, r.trigger.ID, next); err != nil {
		return err
	}

	in.id, in.body = domain.NewID(), nil

	return insert(ctx, tx, r.trigger.ID, in, d, first)
}

// firstOf returns the delivery that an arrival repeats. A digest identifies repeats only within
// the replay window.
func firstOf(ctx context.Context, tx pgx.Tx, triggerID string, in arrival, now time.Time) (id string, found bool, err error) {
	var at time.Time

	err = tx.QueryRow(ctx, `
		SELECT id, created_at FROM trigger_deliveries WHERE trigger_id = $1 AND key = $2 AND counted`, triggerID, in.key).Scan(&id, &at)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", false, nil
	}

	if err != nil || !in.derived || now.Sub(at) <= trigger.ReplayWindow {
		return id, err == nil, err
	}

	_, err = tx.Exec(ctx, `UPDATE trigger_deliveries SET counted = false WHERE id = $1`, id)

	return "", false, err
}

func insert(ctx context.Context, tx pgx.Tx, triggerID string, in arrival, d decision, first string) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO trigger_deliveries
		       (id, work_id, trigger_id, key, counted, outcome, reason_code, error, event, headers, body, body_bytes, duplicate_of,
		        finished_at)
		VALUES (@id, @work, @trigger, @key, @counted, nullif(@outcome, ''), nullif(@reason, ''), nullif(@error, ''), @event, @headers,
		        @body,
		        @bytes, nullif(@first, ''), CASE WHEN @outcome <> '' THEN clock_timestamp() END)`,
		pgx.NamedArgs{
			"id":      in.id,
			"work":    domain.NewID(),
			"trigger": triggerID,
			"key":     domain.CleanText(in.key),
			"counted": !d.outcome.Refused(),
			"outcome": d.outcome,
			"reason":  d.reason,
			"error":   d.error,
			"event":   domain.CleanText(in.payload.Event),
			"headers": trigger.StoredHeaders(in.payload.Headers),
			"body":    in.body,
			"bytes":   len(in.body),
			"first":   first,
		})

	return err
}

// recordInvalid records a request that did not prove its sender, without its content, unless there
// were too many.
func (s *Store) recordInvalid(ctx context.Context, triggerID, key, reason string) error {
	err := s.db.InTx(ctx, func(tx pgx.Tx) error {
		r, err := lockRate(ctx, tx, triggerID)
		if err != nil {
			return err
		}

		return r.refuse(ctx, tx, arrival{key: key}, decision{outcome: trigger.InvalidSignature, reason: reason}, "")
	})

	return pg.Fault("record a delivery", err)
}

// claimed is a delivery to carry out.
type claimed struct {
	trigger   trigger.Trigger
	id        string
	workID    string // the id of what it starts
	attempt   int
	event     string
	headers   map[string]string
	body      []byte
	ancestors []string
	paused    decision
}

// claim reads a delivery that has no outcome; false: it has one, or it was deleted.
func (s *Store) claim(ctx context.Context, id string) (c claimed, found bool, err error) {
	var closed bool

	c.id = id
	into, done := triggerFields(&c.trigger)

	err = s.db.Pool.QueryRow(ctx, `
		SELECT `+triggerColumns+`, u.closed, d.work_id, d.attempt, d.event, d.headers, d.body, d.ancestors
		FROM   trigger_deliveries d JOIN triggers t ON t.id = d.trigger_id JOIN users u ON u.id = t.owner_id
		WHERE  d.id = $1 AND d.outcome IS NULL`, id).
		Scan(append(into, &closed, &c.workID, &c.attempt, &c.event, &c.headers, &c.body, &c.ancestors)...)
	if errors.Is(err, pgx.ErrNoRows) {
		return c, false, nil
	}

	done()

	c.paused = pausedBy(c.trigger.Enabled, closed)

	return c, err == nil, pg.Fault("read a delivery", err)
}

// started names what a delivery has started.
type started struct {
	sessionID domain.SessionID
	chatID    domain.ChatID
	run       string
}

// nameRun records the run that a delivery is about to start.
func (s *Store) nameRun(ctx context.Context, id, run string) error {
	_, err := s.db.Pool.Exec(ctx, `UPDATE trigger_deliveries SET run = $2 WHERE id = $1 AND outcome IS NULL`, id, run)
	return pg.Fault("name the run of a delivery", err)
}

// end writes the outcome of a delivery, unless it has one. A paused delivery is no longer counted:
// it may come again.
func (s *Store) end(ctx context.Context, id string, d decision, of started) error {
	_, err := s.db.Pool.Exec(ctx, `
		UPDATE trigger_deliveries
		SET    outcome = @outcome, reason_code = nullif(@reason, ''), error = nullif(@error, ''), session_id = nullif(@session, ''),
		       chat_id = nullif(@chat, ''), run = nullif(@run, ''), finished_at = clock_timestamp(), counted = counted AND NOT @refused
		WHERE  id = @id AND outcome IS NULL`,
		pgx.NamedArgs{
			"id": id, "outcome": d.outcome, "reason": d.reason, "error": domain.FirstRunes(domain.CleanText(d.error), 1000),
			"session": of.sessionID, "chat": of.chatID, "run": of.run, "refused": d.outcome.Refused(),
		})

	return pg.Fault("end a delivery", err)
}

const deliveryColumns = `
	id, trigger_id, key, outcome, reason_code, error, event, headers, substr(body, 1, 65540), body_bytes, body IS NOT NULL, attempt,
	duplicate_of, session_id, chat_id, run, created_at, finished_at`

func scanDelivery(row pgx.CollectableRow) (d trigger.Delivery, err error) {
	var body []byte

	err = row.Scan(&d.ID, &d.TriggerID, &d.Key, &d.Outcome, &d.ReasonCode, &d.Error, &d.Event, &d.Headers, &body, &d.BodyBytes,
		&d.BodyKept, &d.Attempt, &d.DuplicateOf, &d.SessionID, &d.ChatID, &d.Run, &d.CreatedAt, &d.FinishedAt)
	d.Body = trigger.ShownBody(body)

	return d, err
}

// Deliveries lists a page of the deliveries of a user's trigger, the newest first, and returns
// their total. An empty outcome selects all.
func (s *Store) Deliveries(
	ctx context.Context, ownerID, triggerID string, outcome trigger.Outcome, offset, limit int,
) (page []trigger.Delivery, total int, err error) {
	if _, err := s.Trigger(ctx, ownerID, triggerID); err != nil {
		return nil, 0, err
	}

	const those = ` FROM trigger_deliveries WHERE trigger_id = @id AND (@outcome = '' OR outcome = @outcome)`

	args := pgx.NamedArgs{"id": triggerID, "outcome": outcome, "offset": offset, "limit": limit}
	if err := s.db.Pool.QueryRow(ctx, `SELECT count(*)`+those, args).Scan(&total); err != nil {
		return nil, 0, pg.Fault("count deliveries", err)
	}

	rows, _ := s.db.Pool.Query(ctx, `SELECT `+deliveryColumns+those+` ORDER BY id DESC OFFSET @offset LIMIT @limit`, args)
	page, err = pgx.CollectRows(rows, scanDelivery)

	return page, total, pg.Fault("list deliveries", err)
}

// reset makes a delivery due again, as another attempt. A delivery that did not prove its sender,
// that repeats another one or whose body was removed cannot be delivered again.
func (s *Store) reset(ctx context.Context, ownerID, triggerID, id string) (again trigger.Delivery, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		t, err := oneTrigger(ctx, tx, triggerID, `
			SELECT `+triggerColumns+` FROM triggers t WHERE t.id = @id AND t.owner_id = @owner FOR NO KEY UPDATE`,
			pgx.NamedArgs{"id": triggerID, "owner": ownerID})
		if err != nil {
			return err
		}

		rows, _ := tx.Query(ctx, `SELECT `+deliveryColumns+` FROM trigger_deliveries WHERE id = $1 AND trigger_id = $2`, id, triggerID)

		d, err := pgx.CollectExactlyOneRow(rows, scanDelivery)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return domain.Newf(domain.NotFound, "delivery_not_found", "delivery %s does not exist", domain.CleanText(id))
		case err != nil:
			return err
		case !t.Enabled:
			return domain.Newf(domain.Conflict, trigger.ReasonDisabled, "trigger %s is disabled; enable it first", t.ID)
		case d.Outcome == nil:
			return domain.Newf(domain.Conflict, "delivery_pending", "delivery %s is being carried out", d.ID)
		case !d.BodyKept:
			return domain.Newf(domain.Conflict, "delivery_without_body", "the body of delivery %s is not stored", d.ID)
		}

		rows, _ = tx.Query(ctx, `
			UPDATE trigger_deliveries
			SET    outcome = NULL, reason_code = NULL, error = NULL, session_id = NULL, chat_id = NULL, run = NULL, finished_at = NULL,
			       due_at = clock_timestamp(), attempt = attempt + 1, work_id = $2
			WHERE  id = $1 RETURNING `+deliveryColumns, id, domain.NewID())
		again, err = pgx.CollectExactlyOneRow(rows, scanDelivery)

		return err
	})

	return again, pg.Fault("redeliver", err)
}

// PruneDeliveries deletes up to limit deliveries that ended more than age ago, and returns how many.
func (s *Store) PruneDeliveries(ctx context.Context, age time.Duration, limit int) (int64, error) {
	return s.db.Prune(ctx, "prune deliveries of triggers", `
		DELETE FROM trigger_deliveries WHERE id = ANY (ARRAY (
			SELECT id FROM trigger_deliveries WHERE outcome IS NOT NULL AND finished_at < now() - $2::interval LIMIT $1))`, limit, age)
}

// PruneCrowdedDeliveries deletes the oldest deliveries of triggers that have more than
// trigger.MaxDeliveries, or more than trigger.MaxRefused that were refused.
func (s *Store) PruneCrowdedDeliveries(ctx context.Context, limit int) (int64, error) {
	return s.db.Prune(ctx, "prune deliveries of triggers", `
		DELETE FROM trigger_deliveries WHERE id = ANY (ARRAY (
			SELECT d.id FROM triggers t CROSS JOIN (VALUES (true, $2::int), (false, $3::int)) AS kept (counted, most)
			CROSS  JOIN LATERAL (
				SELECT id FROM trigger_deliveries
				WHERE  trigger_id = t.id AND counted = kept.counted AND outcome IS NOT NULL ORDER BY id DESC OFFSET kept.most) d
			LIMIT $1))`, limit, trigger.MaxDeliveries, trigger.MaxRefused)
}

// PruneBodies removes the oldest bodies of triggers whose bodies are larger than
// trigger.MaxStoredBodies together.
func (s *Store) PruneBodies(ctx context.Context, limit int) (int64, error) {
	return s.db.Prune(ctx, "prune bodies of deliveries", `
		UPDATE trigger_deliveries SET body = NULL WHERE id = ANY (ARRAY (
			SELECT d.id FROM triggers t CROSS JOIN LATERAL (
				SELECT id, outcome, sum(body_bytes) OVER (ORDER BY id DESC) AS total
				FROM   trigger_deliveries WHERE trigger_id = t.id AND body IS NOT NULL) d
			WHERE  d.total > $2 AND d.outcome IS NOT NULL LIMIT $1))`, limit, trigger.MaxStoredBodies)
}

// seconds rounds a pause up to whole seconds.
func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }
