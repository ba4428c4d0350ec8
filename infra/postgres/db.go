package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"everloop/domain"
)

// DB is the records' store: every area of it is a file of methods on DB.
type DB struct {
	Pool *pgxpool.Pool

	pages  shared[domain.SessionQuery, domain.SessionPage]
	totals shared[listed, int]
}

// Options tune Open; the zero value suits one process on one machine.
type Options struct {
	MaxConns        int32         // connections of this process at most; 0: 24
	ApplicationName string        // shown in pg_stat_activity; empty: everloop
	ConnectTimeout  time.Duration // for one new connection; 0: 5 s
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
	// Every query of a running service is a walk along an index. Plans are kept
	// with their connections and are made while tables are still empty, when
	// reading a table whole looks cheap: it would stay so as the table grows.
	params["enable_seqscan"] = "off"
	params["enable_hashjoin"] = "off"
	params["enable_mergejoin"] = "off"
	params["random_page_cost"] = "1.1"
	params["plan_cache_mode"] = "force_generic_plan" // one plan is the right one, so none is made twice
	if opts.ApplicationName != "" {
		params["application_name"] = opts.ApplicationName
	} else if params["application_name"] == "" {
		params["application_name"] = "everloop"
	}
	cfg.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		conn.TypeMap().RegisterType(&pgtype.Type{
			Name: "timestamptz", OID: pgtype.TimestamptzOID,
			Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
		})
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open database pool: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("reach database: %w", err)
	}
	return &DB{Pool: pool}, nil
}

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
	return again(ctx, func() error { return pgx.BeginFunc(ctx, db.Pool, fn) })
}

// Quietly runs statements, which queue adds, in one transaction and one round. Its
// commit does not wait for the disk: it is for what can be done again after a power
// cut.
func (db *DB) Quietly(ctx context.Context, queue func(*pgx.Batch)) error {
	return again(ctx, func() error {
		var batch pgx.Batch
		batch.Queue(`BEGIN`)
		batch.Queue(`SET LOCAL synchronous_commit = off`)
		queue(&batch)
		batch.Queue(`COMMIT`)
		return db.Pool.SendBatch(ctx, &batch).Close()
	})
}

// again runs a transaction anew after a deadlock or a serialization failure.
func again(ctx context.Context, run func() error) error {
	for attempt := 1; ; attempt++ {
		err := run()
		if err == nil || attempt == txAttempts || !worthAnotherTry(err) {
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

// SQLSTATE values that the stores ask for.
const (
	stateSerializationFailure = "40001"
	stateDeadlock             = "40P01"
	stateUniqueViolation      = "23505"
)

func worthAnotherTry(err error) bool {
	return hasState(err, stateSerializationFailure) || hasState(err, stateDeadlock)
}

// hasState reports whether err is the server's answer with that SQLSTATE.
func hasState(err error, state string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == state
}
