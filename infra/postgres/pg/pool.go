package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Pool is the connections of one process, divided by what they are for, so that
// load of one kind does not keep another kind from the database. Steps of
// workflows have their own (ForSteps), and so have leases, which must be renewed
// whatever the load. Everything else shares the first.
//
// A pool is also the admission to its work: as many steps are at work at once as
// there are connections for them, the others wait in order.
type Pool struct {
	shared *pgxpool.Pool
	steps  *pgxpool.Pool // the shared one when it has no connections of its own
	leases *pgxpool.Pool // likewise
}

type stepsKey struct{}

// ForSteps marks a context as that of a workflow's step: its statements use the
// connections for steps, and each has a time limit.
func ForSteps(ctx context.Context) context.Context { return context.WithValue(ctx, stepsKey{}, true) }

func isStep(ctx context.Context) bool { return ctx.Value(stepsKey{}) != nil }

func (p *Pool) of(ctx context.Context) *pgxpool.Pool {
	if isStep(ctx) {
		return p.steps
	}

	return p.shared
}

// Exec runs a statement.
func (p *Pool) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return p.of(ctx).Exec(ctx, sql, args...)
}

// Query runs a statement that returns rows.
func (p *Pool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return p.of(ctx).Query(ctx, sql, args...)
}

// QueryRow runs a statement that returns at most one row.
func (p *Pool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return p.of(ctx).QueryRow(ctx, sql, args...)
}

// SendBatch runs statements in one round.
func (p *Pool) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	return p.of(ctx).SendBatch(ctx, batch)
}

// Begin starts a transaction.
func (p *Pool) Begin(ctx context.Context) (pgx.Tx, error) { return p.of(ctx).Begin(ctx) }

// BeginTx starts a transaction with options.
func (p *Pool) BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error) {
	return p.of(ctx).BeginTx(ctx, opts)
}

// Acquire takes one connection, which the caller releases.
func (p *Pool) Acquire(ctx context.Context) (*pgxpool.Conn, error) { return p.of(ctx).Acquire(ctx) }

// Leases returns the connections for renewing leases, which must not wait for other work. Where
// they are connections of their own, commits do not wait for the disk (synchronous_commit
// is off): a renewal that a crash loses must be within the margin of its lease.
func (p *Pool) Leases() *pgxpool.Pool { return p.leases }

// Ping checks that the database answers.
func (p *Pool) Ping(ctx context.Context) error { return p.of(ctx).Ping(ctx) }

// Stat describes the shared connections.
func (p *Pool) Stat() *pgxpool.Stat { return p.shared.Stat() }

// reset closes all connections, those in use when they are returned.
func (p *Pool) reset() {
	for _, pool := range []*pgxpool.Pool{p.shared, p.steps, p.leases} {
		pool.Reset()
	}
}

// Close waits for the connections in use and closes them all.
func (p *Pool) Close() {
	if p.leases != p.shared {
		p.leases.Close()
	}

	if p.steps != p.shared {
		p.steps.Close()
	}

	p.shared.Close()
}

// defaultStepLimit bounds one statement of a workflow's step, and its wait for a
// connection, whatever the time limit of its activity is. After it a server that
// does not answer is given up, and the activity retried.
const defaultStepLimit = 30 * time.Second

// stepLimits is a tracer because pgx passes the contexts of all statements and
// acquisitions through one.
type stepLimits struct{ limit time.Duration }

type stepLimitKey struct{}

func (s stepLimits) begin(ctx context.Context) context.Context {
	if !isStep(ctx) {
		return ctx
	}

	limited, cancel := context.WithTimeout(ctx, s.limit)

	return context.WithValue(limited, stepLimitKey{}, cancel)
}

func endStep(ctx context.Context) {
	if cancel, limited := ctx.Value(stepLimitKey{}).(context.CancelFunc); limited {
		cancel()
	}
}

func (s stepLimits) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return s.begin(ctx)
}

func (stepLimits) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	endStep(ctx)
}

func (s stepLimits) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return s.begin(ctx)
}

func (stepLimits) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (stepLimits) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchEndData) {
	endStep(ctx)
}

func (s stepLimits) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	return s.begin(ctx)
}

func (stepLimits) TraceAcquireEnd(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireEndData) {
	endStep(ctx)
}
