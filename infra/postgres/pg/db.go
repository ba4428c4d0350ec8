// Package pg is the kernel of the stores in PostgreSQL: connections, transactions,
// errors, and the transactional outbox with its publish queue. It knows no table but
// outbox, event_log and the flushed positions of turns.
package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DB is the connections of this process to PostgreSQL; the stores are built on it.
type DB struct {
	Pool     *Pool
	box      Box // nil: nothing is sealed
	timeline *timeline

	onDelivery func(triggerID, deliveryID string) // see OnDelivery
}

// Options tune Open; the zero value suits one process on one machine.
type Options struct {
	MaxConns        int32         // connections of this process at most, but for the next two; 0: 24
	StepConns       int32         // more, for steps of workflows; 0: they share the others
	LeaseConns      int32         // more, for renewing leases, whose commits do not wait for the disk; 0: they share the others
	ApplicationName string        // shown in pg_stat_activity; empty: everloop
	StepLimit       time.Duration // for one statement of a step; 0: 30 s
	ConnectTimeout  time.Duration // for one new connection; 0: 5 s
	Box             Box           // seals the environments of sessions; nil: they are kept as they are

	Logger *slog.Logger    // nil: slog.Default()
	Tracer pgx.QueryTracer // sees the statements, but those on LeaseConns, which repeat for as long as work lasts; nil: none
}

const defaultMaxConns = 24

// Open connects to the database at url and checks that it answers. Times come
// back in UTC. The caller closes the DB.
func Open(ctx context.Context, url string, opts Options) (*DB, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("the database address cannot be parsed") // pgx would repeat it, password and all
	}

	cfg.MaxConns = defaultMaxConns
	if opts.MaxConns > 0 {
		cfg.MaxConns = opts.MaxConns
	}

	cfg.MaxConnIdleTime = 5 * time.Minute

	cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	if opts.ConnectTimeout > 0 {
		cfg.ConnConfig.ConnectTimeout = opts.ConnectTimeout
	}

	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	params := cfg.ConnConfig.RuntimeParams
	params["timezone"] = "UTC"
	// Every query of a running service walks along an index. Plans are kept with their
	// connections and are made while tables are still empty, when reading a table whole
	// looks cheap: without this, 18 statements of the plan tests read the tables whole
	// that are empty there, whatever the statistics say. It cannot be said in a statement,
	// and SET LOCAL costs a round trip each time.
	params["enable_seqscan"] = "off"
	params["random_page_cost"] = "1.1"
	// Where no index helps, this makes estimated costs so high that a server that compiles
	// costly statements would compile them at each execution, for seconds.
	params["jit"] = "off"

	params["plan_cache_mode"] = "force_generic_plan" // one plan is the right one, so none is made twice
	if opts.ApplicationName != "" {
		params["application_name"] = opts.ApplicationName
	} else if params["application_name"] == "" {
		params["application_name"] = "everloop"
	}

	sealing := sealedEnv{opts.Box}
	watch := &timeline{logger: cmp.Or(opts.Logger, slog.Default()), reset: func() {}}
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		conn.TypeMap().RegisterType(&pgtype.Type{
			Name: "jsonb", OID: pgtype.JSONBOID, Codec: &pgtype.JSONBCodec{Marshal: sealing.marshal, Unmarshal: sealing.unmarshal},
		})
		conn.TypeMap().RegisterType(&pgtype.Type{
			Name: "timestamptz", OID: pgtype.TimestamptzOID,
			Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
		})

		return watch.watch(ctx, conn)
	}

	cfg.ConnConfig.Tracer = limits(opts)
	if opts.Tracer != nil {
		cfg.ConnConfig.Tracer = multitracer.New(cfg.ConnConfig.Tracer, opts.Tracer)
	}

	pool, err := openPool(ctx, cfg, opts)
	if err != nil {
		return nil, fmt.Errorf("open database pool: %w", err)
	}

	watch.setReset(pool.reset)

	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("reach database: %w", err)
	}

	return &DB{Pool: pool, box: opts.Box, timeline: watch}, nil
}

func limits(opts Options) stepLimits { return stepLimits{cmp.Or(opts.StepLimit, defaultStepLimit)} }

func openPool(ctx context.Context, cfg *pgxpool.Config, opts Options) (pool *Pool, err error) {
	pool = &Pool{}
	if pool.shared, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, err
	}

	pool.steps, pool.leases = pool.shared, pool.shared
	for own, conns := range map[**pgxpool.Pool]int32{&pool.steps: opts.StepConns, &pool.leases: opts.LeaseConns} {
		if conns == 0 {
			continue
		}

		more := cfg.Copy()

		more.MaxConns = conns
		if own == &pool.leases {
			more.ConnConfig.Tracer = limits(opts)
			more.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
		}

		if *own, err = pgxpool.NewWithConfig(ctx, more); err != nil {
			*own = pool.shared
			pool.Close()

			return nil, err
		}
	}

	return pool, nil
}

// Seals reports whether the environments of sessions are encrypted.
func (db *DB) Seals() bool { return db.box != nil }

// Close waits for the connections in use and closes them all.
func (db *DB) Close() { db.Pool.Close() }

// Ping checks that the database answers.
func (db *DB) Ping(ctx context.Context) error { return db.Pool.Ping(ctx) }

// txAttempts bounds how often InTx runs one transaction.
const txAttempts = 5

// InTx runs fn in a read-committed transaction: committed when fn returns nil,
// rolled back otherwise. A deadlock or a serialization failure runs fn again, so
// fn must have no effect but through tx.
func (db *DB) InTx(ctx context.Context, fn func(pgx.Tx) error) error {
	return retryTx(ctx, func() error { return db.beginFunc(ctx, fn) })
}

// InTxAsync runs statements, which queue adds, in one transaction and one round trip.
// Its commit does not wait for the disk (synchronous_commit=off): use it only for data
// that can be written again after a power cut.
func (db *DB) InTxAsync(ctx context.Context, queue func(*pgx.Batch)) error {
	return retryTx(ctx, func() error {
		var batch pgx.Batch
		batch.Queue(`BEGIN`)
		batch.Queue(`SET LOCAL synchronous_commit = off`)
		queue(&batch)
		batch.Queue(`COMMIT`)

		return db.Pool.SendBatch(ctx, &batch).Close()
	})
}

// Prune runs a statement that deletes or empties old rows, and returns how many. Doing
// says what failed, as in Fault.
func (db *DB) Prune(ctx context.Context, doing, statement string, args ...any) (int64, error) {
	tag, err := db.Pool.Exec(ctx, statement, args...)
	return tag.RowsAffected(), Fault(doing, err)
}

// retryTx retries a transaction after a deadlock or a serialization failure.
func retryTx(ctx context.Context, run func() error) error {
	for attempt := 1; ; attempt++ {
		err := run()
		if err == nil || attempt == txAttempts || !isRetryable(err) {
			return err
		}

		pause := time.NewTimer(time.Duration(attempt)*2*time.Millisecond + rand.N(5*time.Millisecond))
		select {
		case <-ctx.Done():
			pause.Stop()
			return err
		case <-pause.C:
		}
	}
}

// SQLSTATE values that the stores compare with.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	UniqueViolation      = "23505"
)

func isRetryable(err error) bool {
	return HasState(err, serializationFailure) || HasState(err, deadlockDetected)
}

// HasState reports whether the server answered with that SQLSTATE.
func HasState(err error, state string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == state
}
