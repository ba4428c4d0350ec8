package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"everloop/bench/proc"
	"everloop/bench/result"
	"everloop/bench/target"
)

// What a grown database holds for each session: 1,000 users have them in turns.
const (
	grownUsers      = 1000
	chatsOfSession  = 10
	turnsOfChat     = 5
	grownGoal       = 1.2 // times of what it costs on an empty database
	grownRounds     = 20
	longSession     = 10_000 // turns of the session that is deleted
	grownStepRounds = 3
)

// measureGrown takes what things cost on an empty database and beside the data of
// years: steps, first texts, periodic jobs, a deletion, lists and searches.
func measureGrown(ctx context.Context, b *bench) error {
	seed, err := b.newSeeder(ctx)
	if err != nil {
		return err
	}
	defer seed.conn.Close(ctx)

	empty, err := b.takeCosts(ctx, seed)
	if err != nil {
		return fmt.Errorf("on an empty database: %w", err)
	}

	began := time.Now()

	if err := seed.grow(ctx, b.grown); err != nil {
		return err
	}

	b.value("sessions that were added", "", float64(b.grown), nil)
	b.value("  chats", "", float64(b.grown*chatsOfSession), nil)
	b.value("  turns", "", float64(b.grown*chatsOfSession*turnsOfChat), nil)
	b.value("  adding them took", "s", time.Since(began).Seconds(), nil)

	grown, err := b.takeCosts(ctx, seed)
	if err != nil {
		return fmt.Errorf("on a grown database: %w", err)
	}

	for i, cost := range grown {
		b.samples(cost.what+", grown beside empty", cost.unit, cost.values, empty[i].values, nil)
		b.value("  ratio to the empty database", "", cost.values.Median()/empty[i].values.Median(), result.AtMost(grownGoal))
	}

	return nil
}

// cost is what one thing took, several times.
type cost struct {
	what, unit string
	values     result.Sample
}

// takeCosts measures everything that must not grow with the database.
func (b *bench) takeCosts(ctx context.Context, seed *seeder) ([]cost, error) {
	var costs []cost

	for _, measure := range []func(context.Context, *seeder) ([]cost, error){
		b.stepCosts, b.textCosts, b.readCosts,
		b.deletionCost, b.idleCost,
	} {
		taken, err := measure(ctx, seed)
		if err != nil {
			return nil, err
		}

		costs = append(costs, taken...)
	}

	return costs, nil
}

func (b *bench) stepCosts(ctx context.Context, _ *seeder) ([]cost, error) {
	gap, cpu := cost{what: "gap of a step", unit: "ms"}, cost{what: "CPU of a step in PostgreSQL", unit: "ms"}

	for range grownStepRounds {
		meter := proc.StartMeter(b.server.Cmd.Process.Pid)
		if _, err := b.chatInNew(ctx, target.LoopScript(stepLoop)); err != nil {
			return nil, err
		}

		cpu.values = append(cpu.values, result.Milliseconds(meter.Read().Tree.Records)/stepLoop)

		calls, err := b.stepCalls()
		if err != nil {
			return nil, err
		}

		addGaps(&gap.values, calls)
	}

	return []cost{gap, cpu}, nil
}

func (b *bench) textCosts(ctx context.Context, _ *seeder) ([]cost, error) {
	first := cost{what: "first text", unit: "ms"}

	for range grownRounds {
		seen, err := b.chatInNew(ctx, target.HelloScript)
		if err != nil {
			return nil, err
		}

		if err := b.firstToken(&first.values, seen, nil); err != nil {
			return nil, err
		}
	}

	return []cost{first}, nil
}

func (b *bench) readCosts(ctx context.Context, _ *seeder) ([]cost, error) {
	list, search := cost{what: "first page of sessions", unit: "ms"}, cost{what: "search that finds nothing", unit: "ms"}
	for path, into := range map[string]*cost{"/api/sessions?limit=20": &list, "/api/sessions?limit=20&q=unmatched": &search} {
		for range grownRounds {
			began := time.Now()

			if err := b.client.Call(ctx, http.MethodGet, path, nil, nil); err != nil {
				return nil, err
			}

			into.values.Add(time.Since(began))
		}
	}

	return []cost{list, search}, nil
}

// deletionCost takes the CPU of PostgreSQL until the rows of a long session are
// gone.
func (b *bench) deletionCost(ctx context.Context, seed *seeder) ([]cost, error) {
	gone := cost{what: fmt.Sprintf("CPU of deleting %d turns in PostgreSQL", longSession), unit: "ms"}

	id := seed.session(seed.owner, "long", nil, false, longSession, func(int) string { return "said" })
	for n := 1; n < longSession; n += 2 {
		seed.call(id, n, "result")
	}

	if err := seed.write(ctx); err != nil {
		return nil, err
	}

	meter := proc.StartMeter(b.server.Cmd.Process.Pid)
	if err := b.client.Call(ctx, http.MethodDelete, "/api/sessions/"+id, nil, nil); err != nil {
		return nil, err
	}

	for left := 1; left > 0; {
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}

		if err := seed.conn.QueryRow(ctx, `SELECT count(*) FROM sessions WHERE id = $1`, id).Scan(&left); err != nil {
			return nil, err
		}
	}

	gone.values = append(gone.values, result.Milliseconds(meter.Read().Tree.Records))

	return []cost{gone}, nil
}

// idleCost takes the CPU of a service without work: that of its periodic jobs.
func (b *bench) idleCost(ctx context.Context, _ *seeder) ([]cost, error) {
	if err := wait(ctx, idleSettle); err != nil {
		return nil, err
	}

	meter := proc.StartMeter(b.server.Cmd.Process.Pid)

	if err := wait(ctx, idleWatch); err != nil {
		return nil, err
	}

	used := meter.Read()

	return []cost{
		{
			what: "CPU of PostgreSQL when idle, per second", unit: "ms",
			values: result.Sample{result.Milliseconds(used.Tree.Records) / used.Wall.Seconds()},
		},
	}, nil
}

// grow adds sessions of other users, each with chats, turns, calls, checkpoints and
// messages that were taken. Triggers and foreign keys are not run for them.
func (s *seeder) grow(ctx context.Context, sessions int) error {
	chats := sessions * chatsOfSession
	for _, statement := range []struct {
		sql string
		n   int
	}{
		{`SET session_replication_role = replica`, 0},
		{`INSERT INTO users (id, username) SELECT 'grown-u' || n, 'grown' || n FROM generate_series(0, $1::int - 1) n`, grownUsers},
		{`INSERT INTO sessions (id, owner_id, intent, status, active_branch_id)
		  SELECT 'grown-s' || n, 'grown-u' || n % 1000, 'session ' || n, 'completed', 'grown-s' || n || '-b'
		  FROM   generate_series(0, $1::int - 1) n`, sessions},
		{`INSERT INTO branches (id, session_id, next_sequence)
		  SELECT 'grown-s' || n || '-b', 'grown-s' || n, 50 FROM generate_series(0, $1::int - 1) n`, sessions},
		{`INSERT INTO chats (id, session_id, branch_id, trigger, mode, state, finish_reason, started_at, ended_at, archived_round, round)
		  SELECT 'grown-c' || n, 'grown-s' || n / 10, 'grown-s' || n / 10 || '-b',
		         'user', 'executing', 'ended', 'completed', now(), now(), 1, 1
		  FROM   generate_series(0, $1::int - 1) n`, chats},
		{`INSERT INTO inbox (session_id, client_message_id, kind, chat_id, turn_id, delivery_applied, position, parts, state)
		  SELECT 'grown-s' || n / 10, 'm' || n, 'message', 'grown-c' || n, 'grown-t' || n, 'run', 0, '[]', 'taken'
		  FROM   generate_series(0, $1::int - 1) n`, chats},
		{`INSERT INTO entries (id, session_id, branch_id, sequence, parent_id, chat_id, role, status, step, attempt, blocks,
		                      input_tokens, model, ended_at)
		  SELECT 'grown-e' || n, 'grown-s' || n / 50, 'grown-s' || n / 50 || '-b', n % 50, CASE WHEN n % 50 > 0 THEN 'grown-e' || n - 1 END,
		         'grown-c' || n / 5, CASE WHEN n % 5 = 0 THEN 'user' ELSE 'assistant' END, 'completed', n % 5, 1,
		         '[{"type": "text", "content": "a turn of a session that was long ago"}]', 1000, 'm', now()
		  FROM   generate_series(0, $1::int - 1) n`, chats * turnsOfChat},
		{`INSERT INTO tool_calls (id, session_id, chat_id, entry_id, position, tool_name, display_name, arguments,
		                         status, phase, attempt, result)
		  SELECT 'grown-k' || n, 'grown-s' || n / 10, 'grown-c' || n, 'grown-e' || n * 5 + 1, 0,
		         'Bash', 'Bash', '{}', 'done', 'finished', 1, 'ok'
		  FROM   generate_series(0, $1::int - 1) n`, chats},
		{`INSERT INTO checkpoints (id, session_id, branch_id, turn_id, chat_id, kind, sequence, state, snapshot_id)
		  SELECT 'grown-p' || n, 'grown-s' || n / 10, 'grown-s' || n / 10 || '-b', 'grown-e' || n * 5, 'grown-c' || n,
		         'user_turn', n % 10 * 5, 'captured', 'none'
		  FROM   generate_series(0, $1::int - 1) n`, chats},
		{`SET session_replication_role = origin`, 0},
		{`VACUUM ANALYZE`, 0},
	} {
		var args []any
		if statement.n > 0 {
			args = append(args, statement.n)
		}

		if _, err := s.conn.Exec(ctx, statement.sql, args...); err != nil {
			return fmt.Errorf("grow the database: %w\n%s", err, statement.sql)
		}
	}

	return nil
}
