package realtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/events"
	"everloop/realtime"
)

// openAt is the truth about the open turns behind n events: each turn folded
// from its first event.
func openAt(t testing.TB, all []domain.LoggedEvent, n int) []domain.Turn {
	folds := map[domain.TurnID]*domain.TurnFold{}

	var order []string

	for _, e := range all[:n] {
		var p struct {
			TurnID domain.TurnID `json:"turn_id"`
		}
		require.NoError(t, json.Unmarshal(e.Data, &p))

		if e.Name == domain.EventTurnStart {
			folds[p.TurnID] = domain.NewTurnFold(domain.Turn{TurnID: p.TurnID})
			order = append(order, string(p.TurnID))
		}

		if fold := folds[p.TurnID]; fold != nil {
			require.NoError(t, fold.Apply(e))

			if !fold.Turn().Open() {
				delete(folds, p.TurnID)
			}
		}
	}

	turns := []domain.Turn{}

	for _, id := range order {
		if fold := folds[domain.TurnID(id)]; fold != nil {
			turns = append(turns, fold.Turn())
		}
	}

	return turns
}

// same compares what clients see of open turns; the context window is known to
// the database alone.
func same(t testing.TB, want, got []domain.Turn) {
	t.Helper()
	require.Len(t, got, len(want))

	for i := range want {
		got[i].ContextWindow, want[i].ContextWindow = 0, 0
		w, err := json.Marshal(want[i])
		require.NoError(t, err)
		g, err := json.Marshal(got[i])
		require.NoError(t, err)
		require.JSONEq(t, string(w), string(g))
	}
}

func TestResumeAtEveryPosition(t *testing.T) {
	s := newEnv(t, realtime.HubConfig{})
	session, other := domain.NewID(), s.author(domain.NewID(), 9)
	a := s.author(session, 1)
	a.publish(domain.EventChatStart, map[string]any{"trigger": "user"})

	for range 6 {
		a.turn()
		other.turn()
	}
	// A turn that is still open, and one more that is paused, at the end.
	a.publish(domain.EventTurnStart, map[string]any{"turn_id": "open", "role": "assistant", "status": "streaming"})
	a.publish(domain.EventTurnPatch, map[string]any{
		"turn_id": "open", "patch_type": "add_content", "block_type": "text", "text_delta": "😀", "offset": 0,
	})
	s.state.set(domain.SessionID(session), domain.LiveState{Status: domain.SessionRunning, OpenTurns: []domain.OpenTurn{{
		Turn:       openAt(t, a.events, len(a.events))[0],
		FlushedSeq: a.events[len(a.events)-1].Seq,
	}}, TurnsAfter: a.events[len(a.events)-3].Seq})

	for n := range len(a.events) + 1 {
		after := uint64(0)
		if n > 0 {
			after = a.events[n-1].Seq
		}

		sub, err := s.hub.Subscribe(t.Context(), domain.SessionID(session), &after)
		require.NoError(t, err)

		snapshot := sub.Snapshot()
		require.Equal(t, after, snapshot.Seq)
		require.False(t, snapshot.Truncated)
		require.Equal(t, len(a.events)-n, snapshot.Replayed)
		same(t, openAt(t, a.events, n), snapshot.OpenTurns)

		got := next(t, sub, len(a.events)-n)
		for i, e := range got {
			want := a.events[n+i]
			require.Equal(t, want.Seq, e.Seq)
			require.Equal(t, want.PrevSeq, e.PrevSeq)
			require.Equal(t, want.Name, e.Name)
			require.JSONEq(t, string(want.Data), string(e.Data))
		}

		require.Equal(t, a.events[len(a.events)-1].Seq, sub.Position())
		sub.Close()
	}
	// Between two events of the session, and beyond its end.
	between := a.events[3].Seq + 1
	if between == a.events[4].Seq {
		between--
	}

	sub := s.subscribe(domain.SessionID(session), &between)
	require.Equal(t, a.events[3].Seq, sub.Snapshot().Seq)
	require.Equal(t, a.events[4].Seq, next(t, sub, 1)[0].Seq)

	beyond := ^uint64(0)
	sub = s.subscribe(domain.SessionID(session), &beyond)
	require.Equal(t, a.events[len(a.events)-1].Seq, sub.Snapshot().Seq)
	require.Zero(t, sub.Snapshot().Replayed)
	s.nothing(sub)
}

// TestJoinInMidTurn: whenever a client joins, the open turns plus every later
// delta appended as it comes are the whole text of each turn.
func TestJoinInMidTurn(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := newEnv(t, realtime.HubConfig{})
			session := domain.NewID()
			a := s.author(session, seed)
			a.pause = 2 * time.Millisecond
			written := make(chan struct{})
			random := rand.New(rand.NewPCG(seed, 3))

			var wg sync.WaitGroup

			follow := func() {
				sub, err := s.hub.Subscribe(context.Background(), domain.SessionID(session), nil)
				if err != nil {
					t.Error(err)
					return
				}

				v := newViewer(sub.Snapshot())

				wg.Go(func() {
					defer sub.Close()

					ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
					defer cancel()

					for {
						e, err := sub.Next(ctx)
						if err == nil {
							err = v.take(e)
						}

						if err != nil {
							t.Error(err)
							return
						}

						if e.Name == "mark" {
							break
						}
					}

					for id, got := range v.ended {
						if got != a.said[id] {
							t.Errorf("turn %s: %q instead of %q", id, got, a.said[id])
						}
					}

					if len(v.turns) > 0 {
						t.Errorf("turns without an end: %v", v.turns)
					}
				})
			}

			go func() {
				defer close(written)

				for range 25 {
					a.turn()
				}
			}()

			for joined := 0; joined < 200; {
				select {
				case <-written:
					joined = 200
				case <-time.After(time.Duration(random.IntN(3000)) * time.Microsecond): // random moments are the point
					follow()

					joined++
				}
			}

			<-written
			a.publish("mark", nil) // behind the last who joined
			wg.Wait()
			require.Eventually(t, func() bool { return s.hub.Stats().Rooms == 0 }, time.Minute, time.Millisecond)
		})
	}
}

func TestSubscribe_turnEndedBeforeItsEvent(t *testing.T) {
	s := newEnv(t, realtime.HubConfig{})
	a := s.author(domain.NewID(), 1)
	a.publish(domain.EventTurnStart, map[string]any{"turn_id": "t1", "role": "assistant", "status": "streaming"})
	a.publish(domain.EventTurnPatch, map[string]any{
		"turn_id": "t1", "patch_type": "add_content", "block_type": "text", "text_delta": "kept", "offset": 0,
	})
	s.reached(a.events[1].Seq)
	sub := s.subscribe(a.session, nil) // the database knows of no open turn
	require.Equal(t, "[text kept]", text(sub.Snapshot().OpenTurns[0].Blocks))
	a.publish(domain.EventTurnEnd, map[string]any{"turn_id": "t1", "status": "completed"})
	require.Equal(t, domain.EventTurnEnd, next(t, sub, 1)[0].Name)
	s.reached(a.events[2].Seq)
	require.Empty(t, s.subscribe(a.session, nil).Snapshot().OpenTurns)
}

// Events come between the read of the state and that of the position: they do not
// follow the snapshot, so the snapshot has to have what they say.
func TestSubscribe_eventsWhileTheStateIsRead(t *testing.T) {
	s := newEnv(t, realtime.HubConfig{})
	a := s.author(domain.NewID(), 1)
	a.publish(domain.EventTurnStart, map[string]any{"turn_id": "t1", "role": "assistant", "status": "streaming"})
	s.reached(a.events[0].Seq)
	s.state.set(a.session, domain.LiveState{
		Status: domain.SessionRunning, OpenTurns: []domain.OpenTurn{{Turn: domain.Turn{TurnID: "t1", Status: domain.TurnStreaming}}},
	})

	asked := domain.LiveState{Status: domain.SessionRunning, Questions: []domain.Question{{ID: "q1"}}}
	s.state.read = func() {
		s.state.set(a.session, asked) // the store has it before its events are published
		a.publish(domain.EventTurnPatch, map[string]any{
			"turn_id": "t1", "patch_type": domain.PatchAddToolCall, "tool_call": domain.PatchedToolCall{ID: "call_1"},
		})
		a.publish(domain.EventTurnEnd, map[string]any{"turn_id": "t1", "status": "completed"})
		s.reached(a.events[2].Seq)
	}

	snapshot := s.subscribe(a.session, nil).Snapshot()
	require.Equal(t, a.events[2].Seq, snapshot.Seq)
	require.Empty(t, snapshot.OpenTurns)
	require.Equal(t, asked.Questions, snapshot.PendingQuestions)
}

func TestSubscribe_storeBehindLog(t *testing.T) {
	s := newEnv(t, realtime.HubConfig{FlushWait: 50 * time.Millisecond})
	a := s.author(domain.NewID(), 1)
	a.publish(domain.EventTurnStart, map[string]any{"turn_id": "t1", "role": "assistant", "status": "streaming"})

	var seqs []uint64
	for n, word := range []string{"one ", "two ", "three "} {
		seqs = append(seqs, a.publish(domain.EventTurnPatch, map[string]any{
			"turn_id": "t1", "patch_type": "add_content", "block_type": "text", "text_delta": word,
			"offset": []int{0, 4, 8}[n],
		}))
	}

	s.reached(seqs[2])

	for name, record := range map[string]domain.OpenTurn{
		"a hole": {Turn: domain.Turn{TurnID: "t1", Status: domain.TurnStreaming}, FlushedSeq: seqs[1]},
		"a position that the log never reached": {
			Turn: domain.Turn{TurnID: "t1", Status: domain.TurnStreaming, Blocks: []domain.Block{{
				Type:    "text",
				Content: "one two three four",
			}}}, FlushedSeq: seqs[2] + 1000,
		},
		"a turn that has not started": {Turn: domain.Turn{TurnID: "t2", Status: domain.TurnStreaming}},
	} {
		s.state.set(a.session, domain.LiveState{OpenTurns: []domain.OpenTurn{record}})
		turns := s.subscribe(a.session, nil).Snapshot().OpenTurns
		require.Len(t, turns, 1, name)
		require.Equal(t, "[text one two three ]", text(turns[0].Blocks), name)
	}
}

// TestOpenTurnsSideBySide: one turn is read from its start, another from where
// the database flushed it, and the same piece of the log serves both.
func TestOpenTurnsSideBySide(t *testing.T) {
	s := newEnv(t, realtime.HubConfig{})
	a := s.author(domain.NewID(), 1)

	var flushed uint64

	for _, step := range []struct{ turn, kind, text string }{
		{"t1", "", ""}, {"t2", "", ""}, {"t1", "thinking", "A"}, {"t2", "thinking", "B"}, {"t1", "text", "C"}, {"t2", "text", "D"},
	} {
		if step.kind == "" {
			a.publish(domain.EventTurnStart, map[string]any{"turn_id": step.turn, "role": "assistant", "status": "streaming"})
			continue
		}

		flushed = a.publish(domain.EventTurnPatch, map[string]any{
			"turn_id": step.turn, "patch_type": "add_content", "block_type": step.kind, "text_delta": step.text, "offset": 0,
		})
	}

	call := domain.ToolCall{ID: "ahead of the log"}
	s.state.set(a.session, domain.LiveState{OpenTurns: []domain.OpenTurn{
		{Turn: domain.Turn{TurnID: "t1", Status: domain.TurnStreaming, ToolCalls: []domain.ToolCall{call}}, FlushedSeq: flushed},
		{Turn: domain.Turn{TurnID: "t2", Status: domain.TurnStreaming, Blocks: []domain.Block{
			{Type: "thinking", Content: "B"}, {Type: "text", Content: "D"},
		}}, FlushedSeq: flushed},
	}})
	a.publish("mark", nil)
	s.reached(a.events[len(a.events)-1].Seq)
	turns := s.subscribe(a.session, nil).Snapshot().OpenTurns
	require.Len(t, turns, 2)

	byID := map[domain.TurnID]string{}
	for _, turn := range turns {
		byID[turn.TurnID] = text(turn.Blocks)
		require.Empty(t, turn.ToolCalls)
	}

	require.Equal(t, map[domain.TurnID]string{"t1": "[thinking A][text C]", "t2": "[thinking B][text D]"}, byID)
}

func TestTruncated(t *testing.T) {
	s := newEnv(t, realtime.HubConfig{})
	old := s.author("session-of-an-unknown-age", 1)
	old.turn()
	paused := domain.OpenTurn{
		Turn:       domain.Turn{TurnID: "p", Status: domain.TurnPaused, Blocks: []domain.Block{{Type: "text", Content: "?"}}},
		FlushedSeq: old.events[0].Seq,
	}
	s.state.set(old.session, domain.LiveState{OpenTurns: []domain.OpenTurn{paused}})
	js, err := jetstream.New(s.nc, jetstream.WithDefaultTimeout(time.Minute))
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), "EVENTS")
	require.NoError(t, err)

	cut := len(old.events) / 2
	s.reached(old.events[len(old.events)-1].Seq) // else it may still pass on what the log is about to drop
	// The log drops its older half, as age and size make it do.
	require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSequence(old.events[cut].Seq)))
	zero, known, last := uint64(0), old.events[cut].Seq, old.events[len(old.events)-1].Seq

	sub := s.subscribe(old.session, &zero)
	require.True(t, sub.Snapshot().Truncated)
	require.Zero(t, sub.Snapshot().Seq)
	require.Equal(t, len(old.events)-cut, sub.Snapshot().Replayed)

	paused.ToolCalls = []domain.ToolCall{}
	same(t, []domain.Turn{paused.Turn}, sub.Snapshot().OpenTurns) // known from the database alone
	got := next(t, sub, len(old.events)-cut)
	require.Equal(t, known, got[0].Seq)
	require.Zero(t, got[0].PrevSeq)
	require.Equal(t, last, got[len(got)-1].Seq)

	require.False(t, s.subscribe(old.session, &known).Snapshot().Truncated)
	require.False(t, s.subscribe(old.session, &last).Snapshot().Truncated)

	late := s.author(domain.NewID(), 3) // younger than what was dropped
	late.turn()
	sub = s.subscribe(late.session, &zero)
	require.False(t, sub.Snapshot().Truncated)
	require.Equal(t, len(late.events), sub.Snapshot().Replayed)
}

func TestLostLogGoesOnHigher(t *testing.T) {
	s := newEnv(t, realtime.HubConfig{})
	a := s.author(domain.NewID(), 1)
	a.turn()
	last := a.events[len(a.events)-1].Seq
	sub := s.subscribe(a.session, &last) // not "from here": the hub may still be on its way through the turn
	_, err := events.Open(t.Context(), s.nc, events.Config{HighWater: last + 5})
	require.NoError(t, err)

	seq := s.publish(event(a.session, domain.EventChatEnd, nil))
	require.Greater(t, seq, last+5)
	require.Equal(t, seq, next(t, sub, 1)[0].Seq)

	again := s.subscribe(a.session, &last)
	require.True(t, again.Snapshot().Truncated)
	require.Equal(t, seq, next(t, again, 1)[0].Seq)
}

// A power cut takes the end of the log and all processes, and no process has saved how far
// the log came. A client that saw a part of the lost end reads again, and one that did not
// misses nothing; both get the ends that follow.
func TestHub_Subscribe_afterAPowerCut(t *testing.T) {
	s := newEnv(t, realtime.HubConfig{})
	session := domain.SessionID(domain.NewID())
	start := s.publish(event(session, domain.EventTurnStart, map[string]any{"turn_id": "t1", "status": "streaming"}))
	flushed := t.TempDir()
	require.NoError(t, os.CopyFS(flushed, os.DirFS(s.Dir)))

	var lost []uint64
	for range 7 {
		lost = append(lost, s.publish(event(session, domain.EventTurnPatch, map[string]any{"turn_id": "t1"})))
	}

	s.nc.Close()
	s.Stop()
	require.NoError(t, os.RemoveAll(s.Dir))
	require.NoError(t, os.CopyFS(s.Dir, os.DirFS(flushed)))
	s.Start()
	s.start(realtime.HubConfig{}, events.Config{HighWater: start})

	check := func(after uint64, truncated bool, want []uint64) {
		t.Helper()

		sub := s.subscribe(session, &after)
		require.Equal(t, truncated, sub.Snapshot().Truncated, "after %d", after)

		got := []uint64{}
		for _, e := range next(t, sub, len(want)) {
			got = append(got, e.Seq)
		}

		require.Equal(t, want, got, "after %d", after)
	}
	// Also while the session has no event behind the power cut.
	check(lost[6], true, []uint64{})
	check(start, false, []uint64{})

	ends := []uint64{}
	for _, name := range []string{domain.EventTurnEnd, domain.EventChatEnd} {
		ends = append(ends, s.publish(event(session, name, map[string]any{"turn_id": "t1", "status": "failed"})))
	}

	require.Greater(t, ends[0], lost[6])
	check(start, false, ends)
	check(lost[0], true, ends)
	check(lost[6], true, ends)
	check(ends[0], false, ends[1:])
	check(ends[1], false, []uint64{})
}

// Events that the log lost and that were published again come to the clients that
// have not seen them, and to no other; the chain is whole for each.
func TestSubscribe_lostEventsComeOnce(t *testing.T) {
	s := newEnv(t, realtime.HubConfig{})
	session := domain.NewID()
	publish := func(lost uint64) uint64 {
		e := event(domain.SessionID(session), domain.EventChatEnd, nil)
		e.LostSeq = lost

		return s.publish(e)
	}
	kept := publish(0)
	s.reached(kept)
	live := s.subscribe(domain.SessionID(session), nil)

	var err error

	s.log, err = events.Open(t.Context(), s.nc, events.Config{HighWater: kept + 100})
	require.NoError(t, err)

	first, second, fresh := publish(kept+10), publish(kept+20), publish(0)
	s.reached(fresh)

	for name, test := range map[string]struct {
		after uint64
		want  []uint64
	}{
		"before all":      {0, []uint64{kept, first, second, fresh}},
		"at the last":     {kept, []uint64{first, second, fresh}},
		"first seen":      {kept + 10, []uint64{second, fresh}},
		"all seen":        {kept + 20, []uint64{fresh}},
		"beyond the lost": {kept + 90, []uint64{fresh}},
		"new generation":  {first, []uint64{second, fresh}},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, s.subscribe(domain.SessionID(session), &test.after), test.want)
		})
	}

	check(t, live, []uint64{first, second, fresh})
}

// check takes events and compares their places; each names the one before it.
func check(t *testing.T, sub *realtime.Subscription, want []uint64) {
	t.Helper()

	prev := sub.Snapshot().Seq

	var got []uint64

	for _, e := range next(t, sub, len(want)) {
		require.Equal(t, prev, e.PrevSeq)
		prev, got = e.Seq, append(got, e.Seq)
	}

	require.Equal(t, want, got)
}

func TestSubscription_overflow(t *testing.T) {
	s := newEnv(t, realtime.HubConfig{QueueEvents: 8})
	session := domain.NewID()
	slow, quick := s.subscribe(domain.SessionID(session), nil), s.subscribe(domain.SessionID(session), nil)
	a := s.author(session, 4)
	a.publish("mark", nil)

	first := next(t, slow, 1)[0].Seq
	next(t, quick, 1)

	for len(a.events) < 40 {
		a.publish("mark", nil)
		next(t, quick, 1) // one slow subscriber is no matter to another
	}

	_, err := slow.Next(t.Context())
	require.ErrorIs(t, err, realtime.ErrResync)
	_, err = slow.Next(t.Context())
	require.ErrorIs(t, err, realtime.ErrResync) // nothing more is sent
	require.Equal(t, first, slow.Position())
	slow.Close()
	after := slow.Position()
	again := s.subscribe(domain.SessionID(session), &after)
	require.Equal(t, 39, again.Snapshot().Replayed)

	for i, e := range next(t, again, 39) {
		require.Equal(t, a.events[1+i].Seq, e.Seq)
		require.Equal(t, a.events[i].Seq, e.PrevSeq)
	}

	s.nothing(again)
}

// TestOverflowWhileCatchingUp: what comes live while the log is still being read
// is left to the log, however much it is.
func TestOverflowWhileCatchingUp(t *testing.T) {
	s := newEnv(t, realtime.HubConfig{QueueEvents: 4})

	a := s.author(domain.NewID(), 4)
	for range 600 {
		a.publish("mark", nil)
	}

	zero := uint64(0)
	sub := s.subscribe(a.session, &zero)
	require.Equal(t, 600, sub.Snapshot().Replayed)
	got := next(t, sub, 10)

	for range 300 {
		a.publish("mark", nil)
	}

	s.reached(a.events[899].Seq)

	got = append(got, next(t, sub, 890)...)
	for i, e := range got {
		require.Equal(t, a.events[i].Seq, e.Seq)
		require.Equal(t, a.events[i].PrevSeq, e.PrevSeq)
	}

	s.nothing(sub)
}

func TestSubscription_serverRestart(t *testing.T) {
	s := newEnv(t, realtime.HubConfig{})
	a := s.author(domain.NewID(), 4)

	sub := s.subscribe(a.session, nil)
	for range 3 {
		a.publish("mark", nil)
		s.Stop()
		s.Start()
		a.publish("mark", nil)
	}

	for i, e := range next(t, sub, 6) {
		require.Equal(t, a.events[i].Seq, e.Seq)
		require.Equal(t, a.events[i].PrevSeq, e.PrevSeq)
	}
}

func TestSubscription_idleHasNoGoroutine(t *testing.T) {
	s := newEnv(t, realtime.HubConfig{})
	s.subscribe("warm", nil)

	before := runtime.NumGoroutine()

	for n := range 1000 {
		s.subscribe(domain.SessionID(fmt.Sprintf("session-%d", n)), nil)
	}

	require.Less(t, runtime.NumGoroutine(), before+200) // those of the event log come and go
	require.Equal(t, 1001, s.hub.Stats().Subscriptions)
}

func TestSubscribeErrors(t *testing.T) {
	s := newEnv(t, realtime.HubConfig{})
	s.state.err = errors.New("the database is down")
	_, err := s.hub.Subscribe(t.Context(), "s1", nil)
	require.ErrorContains(t, err, "the database is down")
	require.Zero(t, s.hub.Stats().Rooms)
	s.state.err = nil

	idle := realtime.NewHub(realtime.HubConfig{Log: s.log, State: s.state}) // never runs

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()

	_, err = idle.Subscribe(ctx, "s1", nil)
	require.Equal(t, domain.Unavailable, domain.AsError(err).Kind)

	sub := s.subscribe("s1", nil)
	_, err = sub.Next(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	closed := make(chan error)

	go func() { _, err := sub.Next(context.Background()); closed <- err }()

	sub.Close()
	sub.Close()
	require.ErrorIs(t, <-closed, realtime.ErrClosed)
}

// flaky is a log whose tail breaks and whose events cannot always be fetched.
type flaky struct {
	realtime.Log
	mu    sync.Mutex
	cut   chan struct{}
	fails int
}

func (f *flaky) Tail(ctx context.Context, started func(uint64),
	each func(domain.SessionID, uint64, int, func(context.Context) (domain.Event, error)),
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	go func() {
		select {
		case <-f.cut:
			cancel()
		case <-ctx.Done():
		}
	}()

	return f.Log.Tail(ctx, started, func(id domain.SessionID, seq uint64, size int, load func(context.Context) (domain.Event, error)) {
		each(id, seq, size, func(ctx context.Context) (domain.Event, error) {
			f.mu.Lock()
			defer f.mu.Unlock()

			if f.fails > 0 {
				f.fails--
				return domain.Event{}, errors.New("the object store is down")
			}

			return load(ctx)
		})
	})
}

func TestSubscription_retriesFetch(t *testing.T) {
	s := newEnv(t, realtime.HubConfig{})
	log := &flaky{Log: s.log, cut: make(chan struct{}), fails: 2}
	s.hub = realtime.NewHub(realtime.HubConfig{Log: log, State: s.state})
	s.run(s.hub)
	sub := s.subscribe("s1", nil)
	seq := s.publish(event("s1", "mark", nil))
	require.Equal(t, seq, next(t, sub, 1)[0].Seq)
	require.Zero(t, log.fails)
}

func TestHub_tailRestart_subscriptionsCatchUp(t *testing.T) {
	s := newEnv(t, realtime.HubConfig{})
	log := &flaky{Log: s.log, cut: make(chan struct{})}
	s.hub = realtime.NewHub(realtime.HubConfig{Log: log, State: s.state})
	s.run(s.hub)
	sub := s.subscribe("s1", nil)
	ended := make(chan error, 1)

	go func() {
		for {
			if _, err := sub.Next(t.Context()); err != nil {
				ended <- err
				return
			}
		}
	}()

	log.cut <- struct{}{}

	var err error

	require.Eventually(t, func() bool {
		s.publish(event("s1", "mark", nil)) // missed while there is no tail

		select {
		case err = <-ended:
			return true
		default:
			return false
		}
	}, time.Minute, 10*time.Millisecond)
	require.ErrorIs(t, err, realtime.ErrResync)
}
