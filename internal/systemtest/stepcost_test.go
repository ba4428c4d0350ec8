package systemtest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"everloop/internal/testkit"
)

// What a step may cost: one model call and one short tool call. Statements count
// one by one, also those that are sent together, and so do BEGIN and COMMIT.
const (
	stepStatements   = 8.0
	stepTransactions = 3.0
)

// environmentFor is how long the environment that tools were given is used for others.
const environmentFor = 5 * time.Second

// sqlCount is what was sent. What goes with the time and not with the steps is counted
// apart: what the publish queue notes of events that are published, for many steps at
// once, and reads of the environment.
type sqlCount struct {
	transactions        int
	statements          map[string]int
	notes, environments int
}

// sqlMeter counts statements and transactions.
type sqlMeter struct {
	mu   sync.Mutex
	seen sqlCount
}

func (m *sqlMeter) TraceQueryStart(ctx context.Context, conn *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	m.count(conn.PgConn().TxStatus() == 'I', q.SQL)
	return ctx
}

func (m *sqlMeter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (m *sqlMeter) TraceBatchStart(ctx context.Context, conn *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	sent := make([]string, len(b.Batch.QueuedQueries))
	for i, q := range b.Batch.QueuedQueries {
		sent[i] = q.SQL
	}

	m.count(conn.PgConn().TxStatus() == 'I', sent...)

	return ctx
}

func (m *sqlMeter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (m *sqlMeter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (m *sqlMeter) count(begins bool, sent ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()

	holds := func(part string) bool {
		return slices.ContainsFunc(sent, func(sql string) bool { return strings.Contains(sql, part) })
	}

	switch {
	case holds("UPDATE outbox o SET seq"), holds("DELETE FROM outbox"):
		m.seen.notes += len(sent)
		return
	case holds("FROM env_buckets"):
		m.seen.environments += len(sent)
		return
	}

	if begins {
		m.seen.transactions++
	}

	for _, sql := range sent {
		m.seen.statements[kindOf(sql)]++
	}
}

// kindOf returns the beginning of a statement.
func kindOf(sql string) string {
	words := strings.Join(strings.Fields(sql), " ")
	return fmt.Sprintf("%.100s", words)
}

// take returns what was counted since the last time.
func (m *sqlMeter) take() sqlCount {
	m.mu.Lock()
	defer m.mu.Unlock()

	seen := m.seen
	m.seen = sqlCount{statements: map[string]int{}}

	return seen
}

func TestStep_staysWithinItsStatements(t *testing.T) {
	t.Parallel()

	meter := &sqlMeter{seen: sqlCount{statements: map[string]int{}}}
	s := newStackOn(t, func(mock http.Handler) http.Handler { return mock }, testkit.Events(t), meter, nil)
	s.acts.Fast.Off = false // what is measured is a step of the service as it runs
	session := s.session()
	// A chat by its script, but not what looks at the chat from outside.
	run := func(steps int) sqlCount {
		meter.take()

		began := time.Now()
		ack := s.send(session, script(obj{"loop": obj{"n": steps, "call": bash("true")}}))
		s.awaitEndInLog(session, ack.ChatID)

		count := meter.take()
		require.LessOrEqual(t, count.environments, int(time.Since(began)/environmentFor)+1)

		return count
	}

	run(2) // plans and caches

	const (
		few, many    = 5, 45
		measurements = 6
	)
	// A step that takes seconds also reads again what is kept for seconds, and keeps what
	// it has streamed: a busy machine is measured again. What each step costs is in every
	// measurement.
	for n := 1; ; n++ {
		more, less := run(many), run(few)

		statements, transactions := more.above(t, less, many-few)
		if n < measurements && (statements > stepStatements+0.3 || transactions > stepTransactions+0.1) {
			continue
		}

		require.LessOrEqual(t, statements, stepStatements+0.3)
		require.LessOrEqual(t, transactions, stepTransactions+0.1)

		return
	}
}

// above returns what one of so many more steps costs.
func (c sqlCount) above(t *testing.T, less sqlCount, steps float64) (statements, transactions float64) {
	t.Helper()

	per := func(more, less int) float64 { return float64(more-less) / steps }
	kinds := map[string]float64{}

	for kind := range c.statements {
		if each := per(c.statements[kind], less.statements[kind]); each > 0.05 {
			kinds[kind] = each
			statements += each
		}
	}

	transactions = per(c.transactions, less.transactions)

	names := slices.SortedFunc(maps.Keys(kinds), func(a, b string) int {
		return cmp.Or(cmp.Compare(kinds[b], kinds[a]), cmp.Compare(a, b))
	})
	for _, kind := range names {
		t.Logf("%5.2f %s", kinds[kind], kind)
	}

	t.Logf(
		"a step: %.2f statements in %.2f transactions; %.2f more to note what is published, and %.2f to read environments",
		statements,
		transactions,
		per(c.notes, less.notes),
		per(c.environments, less.environments),
	)

	return statements, transactions
}
