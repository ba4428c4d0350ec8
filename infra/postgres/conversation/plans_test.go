package conversation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/operator"
	"everloop/domain/prodagent"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
	"everloop/internal/testkit"
	"everloop/service/accounts"
	boards "everloop/service/board"
	"everloop/service/dagruns"
	"everloop/service/history"
	"everloop/service/recordings"
	"everloop/service/recordings/replay"
	"everloop/service/tasks"
	"everloop/service/webhooks"
	"everloop/service/work"
)

// How many rows of a large table one statement may read: of maintenance, which goes
// through what waits, of all sessions; and of a step, which reads what is of its session.
const (
	maxRead     = 1000
	maxReadStep = 200
)

// large are the tables that grow with use.
var large = map[string]bool{
	"sessions": true, "branches": true, "chats": true, "entries": true, "tool_calls": true, "inbox": true, "audit": true, "questions": true,
	"idempotency_keys": true, "background_tasks": true, "compactions": true, "history_operations": true, "checkpoints": true,
	"dag_runs": true, "work_restarts": true, "issue_runs": true, "scheduled_runs": true,
	"webhook_deliveries": true,
}

// statement is one that was sent to the database.
type statement struct {
	sql  string
	args []any
}

// recorder keeps what is sent.
type recorder struct {
	mu   sync.Mutex
	sent []statement
}

func (r *recorder) keep(sql string, args []any) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.sent = append(r.sent, statement{sql, args})
}

func (r *recorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	r.keep(q.SQL, q.Args)
	return ctx
}
func (r *recorder) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (r *recorder) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (r *recorder) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	r.keep(q.SQL, q.Args)
}
func (r *recorder) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// grown fills a database: 10,000 sessions with ten chats each, 100,000 messages and
// turns, calls and the rest.
func grown(t *testing.T, db *postgres.DB) domain.User {
	t.Helper()
	user := pgtest.User(t, db, "owner", false)
	own, err := db.Pool.Acquire(t.Context())
	require.NoError(t, err)

	defer own.Release()

	filling, err := pgx.Connect(t.Context(), testkit.AsSuperuser(t, own.Conn().Config().ConnString()))
	require.NoError(t, err)

	defer filling.Close(context.Background())

	for _, fill := range []string{
		`ALTER TABLE entries DISABLE TRIGGER ALL; ALTER TABLE sessions DISABLE TRIGGER ALL`,
		`ALTER TABLE history_operations DISABLE TRIGGER ALL`,
		`INSERT INTO sessions (id, owner_id, active_branch_id, status) SELECT 's' || n, '` + user.ID + `', 'b' || n, 'completed' FROM generate_series(1, 10000) n`,
		`INSERT INTO branches (id, session_id, lineage, next_sequence)
		 SELECT 'b' || n, 's' || n, jsonb_build_array(jsonb_build_object('branch_id', 'b' || n)), 10 FROM generate_series(1, 10000) n`,
		`INSERT INTO chats (id, session_id, branch_id, trigger, mode, state, round, archived_round, started_at, ended_at, steps)
		 SELECT 'c' || n, 's' || n % 10000 + 1, 'b' || n % 10000 + 1, 'user', 'executing', 'ended', 1, 1, now(), now(), 1
		     FROM generate_series(1, 100000) n`,
		`INSERT INTO inbox (session_id, client_message_id, kind, chat_id, turn_id, delivery_applied, position, parts, state)
		 SELECT 's' || n % 10000 + 1, 'm' || n, 'message', 'c' || n, 't' || n, 'run', 0, '[]', 'taken' FROM generate_series(1, 100000) n`,
		`INSERT INTO inbox (session_id, kind, chat_id, turn_id, delivery_applied, position, parts, created_at)
		 SELECT 's' || n, 'steer', 'c' || n, 'q' || n, 'steer', 0, '[]', now() FROM generate_series(5000, 5500) n`,
		`INSERT INTO entries (id, session_id, branch_id, sequence, chat_id, role, status, step, ended_at)
		 SELECT 'e' || n, 's' || n % 10000 + 1, 'b' || n % 10000 + 1, n / 10000, 'c' || n, 'assistant', 'completed', 1, now()
		     FROM generate_series(1, 99999) n`,
		`INSERT INTO tool_calls (id, session_id, chat_id, entry_id, position, tool_name, display_name, arguments, status, phase)
		 SELECT 'call' || n, 's' || n % 10000 + 1, 'c' || n, 'e' || n, 0, 'Bash', 'Bash', '{}', 'done', 'finished'
		     FROM generate_series(1, 99999) n`,
		`INSERT INTO audit (id, actor_id, action, target, created_at)
		 SELECT lpad(n::text, 10, '0'), '', '', '', now() - interval '400 days' * (100000 - n) / 100000 FROM generate_series(1, 100000) n`,
		`INSERT INTO idempotency_keys (user_id, key, request) SELECT 'u', 'k' || n, '' FROM generate_series(1, 20000) n`,
		`INSERT INTO background_tasks (id, session_id, kind, title, status) SELECT 't' || n, 's' || n % 10000 + 1, 'shell', '',
			'completed' FROM generate_series(1, 20000) n`,
		`INSERT INTO compactions (id, session_id, branch_id, loop_id, trigger, state)
		 SELECT 'k' || n, 's' || n % 10000 + 1, 'b' || n % 10000 + 1, 'root', 'manual', 'completed' FROM generate_series(1, 20000) n`,
		`INSERT INTO history_operations (id, session_id, kind, caller_id, left_id, branch_id, state, created_at, ended_at)
		 SELECT 'h' || n, 's' || n % 10000 + 1, 'switch_branch', 'x', 'l' || n, 'b' || n % 10000 + 1, 'done', now(), now()
		     FROM generate_series(1, 20000) n`,
		`INSERT INTO work_restarts (workflow_id, run_id) SELECT 'dag/p/' || n, 'x' FROM generate_series(1, 20000) n`,
		`INSERT INTO prod_solutions (id, owner_id, name) VALUES ('p', '` + user.ID + `', 'p')`,
		`INSERT INTO dag_runs (id, solution_id, owner_id, version, trigger, status, inputs, finished_at)
		 SELECT lpad(n::text, 10, '0'), 'p', '` + user.ID + `', 1, 'api', 'completed', '{}',
		        now() - interval '180 days' * (20000 - n) / 20000
		 FROM   generate_series(1, 20000) n`,
		`INSERT INTO webhooks (id, owner_id, url, description, events, enabled, sealed, retry_at)
		 SELECT 'w' || n, '` + user.ID + `', '', '', '{*}', true, '', CASE WHEN n <= 50 THEN now() + interval '1 hour' END
		     FROM generate_series(1, 51) n`,
		`INSERT INTO webhook_deliveries (id, webhook_id, event, body, status, next_attempt_at)
		 SELECT 'd' || n, 'w' || n % 51 + 1, '', '', 'pending', now() - interval '1 hour' + n * interval '1 ms' FROM generate_series(1, 51000) n`,
		`ALTER TABLE entries ENABLE TRIGGER ALL; ALTER TABLE sessions ENABLE TRIGGER ALL`,
		`ALTER TABLE history_operations ENABLE TRIGGER ALL`,
		`ANALYZE`,
	} {
		_, err := filling.Exec(t.Context(), fill, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err, fill)
	}

	return user
}

// recorded returns a store on the same database that keeps what it sends.
func recorded(t *testing.T, db *postgres.DB) (*postgres.Store, *recorder) {
	t.Helper()

	seen := &recorder{}
	conn, err := db.Pool.Acquire(t.Context())
	require.NoError(t, err)

	url := conn.Conn().Config().ConnString()
	conn.Release()

	traced, err := postgres.Open(t.Context(), url, postgres.Options{ConnectTimeout: time.Minute, Tracer: seen})
	require.NoError(t, err)
	t.Cleanup(traced.Close)

	return postgres.NewStore(traced, &pgtest.Log{}, slog.New(slog.DiscardHandler)), seen
}

// plan is a node of a plan as EXPLAIN gives it.
type plan struct {
	Type     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Rows     float64 `json:"Actual Rows"`
	Filtered float64 `json:"Rows Removed by Filter"`
	Rechecks float64 `json:"Rows Removed by Index Recheck"`
	Loops    float64 `json:"Actual Loops"`
	Plans    []plan
}

// faults finds what reads a large table whole, or more than most rows of one.
func (p plan) faults(most float64) (found []string) {
	read := (p.Rows + p.Filtered + p.Rechecks) * p.Loops
	switch {
	case large[p.Relation] && p.Type == "Seq Scan":
		found = append(found, "reads the whole table "+p.Relation)
	case large[p.Relation] && p.Type != "ModifyTable" && read > most:
		found = append(found, fmt.Sprintf("reads %.0f rows of %s by %s", read, p.Relation, p.Type))
	}

	for _, below := range p.Plans {
		found = append(found, below.faults(most)...)
	}

	return found
}

// explained runs a statement again, with its plan, and undoes it. One that cannot be
// run twice, because it inserts a row, is only planned.
func explained(t *testing.T, db *postgres.DB, s statement) plan {
	t.Helper()

	var plans []struct{ Plan plan }

	explain := func(how string) error {
		undone := errors.New("undone")

		err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
			var raw []byte
			if err := tx.QueryRow(t.Context(), "EXPLAIN ("+how+"FORMAT JSON) "+s.sql, s.args...).Scan(&raw); err != nil {
				return err
			}

			return errors.Join(undone, json.Unmarshal(raw, &plans))
		})
		if errors.Is(err, undone) {
			return nil
		}

		return err
	}

	err := explain("ANALYZE, ")
	if pgErr, refused := errors.AsType[*pgconn.PgError](err); refused && pgErr.Code == "23505" {
		err = explain("")
	}

	require.NoError(t, err, s.sql)
	require.Len(t, plans, 1)

	return plans[0].Plan
}

// boundedReads holds that no statement that was sent reads more than most rows of a large
// table.
func boundedReads(t *testing.T, db *postgres.DB, seen *recorder, most float64) {
	t.Helper()

	checked := map[string]bool{}

	for _, s := range seen.sent {
		verb, _, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(s.sql)), " ")

		verb = strings.TrimSpace(verb)
		if checked[s.sql] ||
			!strings.HasPrefix(verb, "SELECT") && !strings.HasPrefix(verb, "UPDATE") && !strings.HasPrefix(verb, "DELETE") &&
				!strings.HasPrefix(verb, "WITH") && !strings.HasPrefix(verb, "INSERT") {
			continue
		}

		checked[s.sql] = true
		for _, fault := range explained(t, db, s).faults(most) {
			t.Errorf("%s:\n%s", fault, s.sql)
		}
	}

	require.NotEmpty(t, checked)
}

func TestPlans_maintenanceReadsLittleOfLargeTables(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	grown(t, db)
	store, seen := recorded(t, db)
	moves, works := history.NewStore(store.DB, nil), work.NewStore(store.DB)
	background := tasks.NewStore(store.DB, nil)
	archive, replays := recordings.NewStore(store.DB), replay.NewStore(store.DB, nil)

	const ages = 100 * 365 * 24 * time.Hour // so that none is deleted

	ctx := t.Context()
	for name, look := range map[string]func() error{
		"stalled":      func() error { _, err := store.StalledSessions(ctx, 0, "", 200); return err },
		"stops":        func() error { _, err := store.UndeliveredStops(ctx, "", 200); return err },
		"running":      func() error { _, err := store.RunningChats(ctx, 0, "", 200); return err },
		"unused":       func() error { _, err := store.DeleteExpired(ctx, domain.ClassSchedule, ages, 20); return err },
		"unused chats": func() error { _, err := store.DeleteExpired(ctx, domain.ClassChat, ages, 20); return err },
		"live work":    func() error { _, err := store.LiveWork(ctx, "s1"); return err },
		"compactions":  func() error { return store.EndCompactionsOfChats(ctx) },
		"archives":     func() error { _, err := archive.Unarchived(ctx, "", 50); return err },
		"unclaimed":    func() error { _, err := background.UnclaimedTasks(ctx, time.Minute, "", 200); return err },
		"abandoned":    func() error { _, err := background.AbandonedTasks(ctx, time.Minute, "", 200); return err },
		"agents":       func() error { _, err := background.RunningAgents(ctx, time.Minute, "", 200); return err },
		"sub-agents":   func() error { _, err := store.IdleSubAgents(ctx, 0, "", 200); return err },
		"replays":      func() error { _, err := replays.StaleReplays(ctx, time.Minute); return err },
		"restart":      func() error { _, err := store.CountRestart(ctx, "c1", "r"); return err },
		"force-fail":   func() error { return store.ForceFailChat(ctx, "s1", "r") },
		"waiting":      func() error { return store.ReportWaiting(ctx) },
		"changed":      func() error { store.KeepChanged([]string{"s1"}); return store.ReportChanged(ctx) },
		"worker":       func() error { return store.ReportWorker(ctx, prodagent.WorkerReport{ID: "w"}) },
		"audit":        func() error { _, err := accounts.New(store.DB).PruneAudit(ctx, 365*24*time.Hour, 500); return err },
		"operations":   func() error { _, err := moves.PruneHistoryOperations(ctx, 0, 500); return err },
		"keys":         func() error { _, err := accounts.New(store.DB).PruneIdempotency(ctx, 500); return err },
		"inbox":        func() error { _, err := store.PruneInbox(ctx, 500); return err },
		"runs of DAGs": func() error { _, err := dagruns.NewStore(store.DB).PruneDAGRuns(ctx, 20); return err },
		"waits":        func() error { _, _, err := store.Waits(ctx); return err },
		"stalled DAGs": func() error { _, err := dagruns.NewStore(store.DB).StalledDAGRuns(ctx, "", 200); return err },
		"lost runs":    func() error { _, _, err := works.CountRestart(ctx, "dag/p/1", "r"); return err },
		"counts":       func() error { _, err := works.PruneRestarts(ctx, 500); return err },
		"issues":       func() error { _, err := boards.NewStore(store.DB).StalledIssueRuns(ctx, "", 200); return err },
		"schedules":    func() error { _, err := store.StalledRuns(ctx, "", 200); return err },
		"work":         func() error { _, err := store.PruneCompactions(ctx, 500); return err },
		"deliveries":   func() error { _, err := webhooks.NewStore(store.DB).ClaimDeliveries(ctx, 64); return err },
		"purge": func() error {
			if err := store.DeleteSession(ctx, "s3"); err != nil {
				return err
			}

			return store.PurgeSession(ctx, "s3")
		},
	} {
		require.NoError(t, look(), name)
	}

	for _, kind := range operator.RunKinds {
		_, err := works.OpenIDs(ctx, kind, "", 200)
		require.NoError(t, err, kind)
	}

	boundedReads(t, db, seen, maxRead)
}

func TestPlans_stepsReadLittleOfLargeTables(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	user := grown(t, db)
	store, seen := recorded(t, db)
	ctx := t.Context()
	send := func(delivery domain.Delivery) domain.Enqueued {
		out, err := store.Enqueue(ctx, user.ID, domain.Send{
			SessionID: "s7", Message: []domain.ContentPart{{Type: "text", Text: "hello"}}, Delivery: delivery, Trigger: domain.TriggerUser,
		})
		require.NoError(t, err)

		return out
	}
	chat := send(domain.DeliverEnqueue).Ack.ChatID
	started, err := store.BeginChat(ctx, contract.BeginChatIn{SessionID: "s7", RunID: "r"})
	require.NoError(t, err)
	require.Equal(t, chat, started.ChatID)
	send(domain.DeliverSteer)

	key := domain.TurnKey{SessionID: "s7", ChatID: chat, LoopID: domain.RootLoop, Step: 1}
	_, err = store.Weigh(ctx, key)
	require.NoError(t, err)
	turn, _, err := store.OpenTurn(ctx, key, "m", 1, "")
	require.NoError(t, err)
	require.NoError(t, store.CloseTurn(ctx, domain.ClosingTurn{
		TurnKey: key, EntryID: turn.EntryID, Attempt: turn.Attempt, Status: domain.TurnCompleted, Blocks: []domain.Block{},
		Calls: []domain.PlannedCall{{ID: "call-new", ToolName: "Bash", DisplayName: "Bash", Arguments: "{}"}},
	}))
	_, _, err = store.ClaimCall(ctx, "call-new", "")
	require.NoError(t, err)
	require.NoError(t, store.RenewCall(ctx, "call-new", 1))
	_, err = store.CheckChat(ctx, contract.CheckChatIn{ChatID: chat})
	require.NoError(t, err)
	_, err = store.RequestStop(ctx, user.ID, "s7", false)
	require.NoError(t, err)
	_, err = store.FinishChat(ctx, contract.FinishChatIn{ChatID: chat, Reason: domain.FinishInterrupted}, nil)
	require.NoError(t, err)
	boundedReads(t, db, seen, maxReadStep)
}
