package systemtest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

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

// sqlMeter counts statements and transactions. What the publish queue notes of
// events that are published, for many steps at once, is counted apart.
type sqlMeter struct {
	mu           sync.Mutex
	transactions int
	statements   map[string]int
	notes        int
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

	if slices.ContainsFunc(sent, func(sql string) bool {
		return strings.Contains(sql, "UPDATE outbox o SET seq") || strings.Contains(sql, "DELETE FROM outbox")
	}) {
		m.notes += len(sent)
		return
	}

	if begins {
		m.transactions++
	}

	for _, sql := range sent {
		m.statements[kindOf(sql)]++
	}
}

// kindOf is the beginning of a statement.
func kindOf(sql string) string {
	words := strings.Join(strings.Fields(sql), " ")
	return fmt.Sprintf("%.100s", words)
}

// take gives what was counted since the last time.
func (m *sqlMeter) take() (statements map[string]int, transactions, notes int) {
	m.mu.Lock()
	defer m.mu.Unlock()

	statements, transactions, notes = m.statements, m.transactions, m.notes
	m.statements, m.transactions, m.notes = map[string]int{}, 0, 0

	return statements, transactions, notes
}

func TestStep_staysWithinItsStatements(t *testing.T) {
	t.Parallel()

	meter := &sqlMeter{statements: map[string]int{}}
	s := newStackOn(t, func(mock http.Handler) http.Handler { return mock }, testkit.Events(t), meter, nil)
	s.acts.NoFastPaths = false // what is measured is a step of the service as it runs
	session := s.session()
	// A chat by its script, but not what looks at the chat from outside.
	run := func(steps int) (map[string]int, int, int) {
		meter.take()

		ack := s.send(session, script(obj{"loop": obj{"n": steps, "call": bash("true")}}))
		s.awaitEndInLog(session, ack.ChatID)

		return meter.take()
	}

	run(2) // plans and caches

	const few, many = 5, 45

	before, transactionsBefore, notesBefore := run(few)
	after, transactionsAfter, notesAfter := run(many)

	per := func(more, less int) float64 { return float64(more-less) / (many - few) }
	total := 0.0
	kinds := map[string]float64{}

	for kind := range after {
		if each := per(after[kind], before[kind]); each > 0.05 {
			kinds[kind] = each
			total += each
		}
	}

	transactions := per(transactionsAfter, transactionsBefore)

	names := make([]string, 0, len(kinds))
	for kind := range kinds {
		names = append(names, kind)
	}

	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(kinds[b], kinds[a]), cmp.Compare(a, b)) })

	for _, kind := range names {
		t.Logf("%5.2f %s", kinds[kind], kind)
	}

	t.Logf(
		"a step: %.2f statements in %.2f transactions; %.2f more to note what is published",
		total,
		transactions,
		per(notesAfter, notesBefore),
	)
	require.LessOrEqual(t, total, stepStatements+0.3)
	require.LessOrEqual(t, transactions, stepTransactions+0.1)
}
