package realtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/events"
	"everloop/internal/testkit/natskit"
	"everloop/realtime"
)

// env is a hub over the real event log on a NATS server in this process.
type env struct {
	*natskit.Server
	t     testing.TB
	nc    *nats.Conn
	log   *events.Log
	hub   *realtime.Hub
	state *fakeState
}

func newEnv(t testing.TB, cfg realtime.HubConfig) *env {
	s := &env{Server: natskit.New(t), t: t, state: &fakeState{
		sessions: map[domain.SessionID]domain.LiveState{}, after: map[domain.TurnID]uint64{},
	}}
	s.start(cfg, events.Config{})

	return s
}

// start starts a process with its own hub.
func (s *env) start(cfg realtime.HubConfig, log events.Config) {
	s.t.Helper()
	s.nc = s.Connect()

	var err error

	s.log, err = events.Open(s.t.Context(), s.nc, log)
	require.NoError(s.t, err)

	cfg.Log, cfg.State = s.log, s.state
	s.hub = realtime.NewHub(cfg)
	s.run(s.hub)
}

// run lets a hub run until the test ends.
func (s *env) run(hub *realtime.Hub) {
	ctx, cancel := context.WithCancel(context.Background())

	ended := make(chan struct{})
	go func() { defer close(ended); _ = hub.Run(ctx) }()

	s.t.Cleanup(func() { cancel(); <-ended })
}

func (s *env) publish(e domain.Event) uint64 {
	seq, err := s.log.Publish(context.Background(), e)
	require.NoError(s.t, err)

	return seq
}

func (s *env) subscribe(session domain.SessionID, after *uint64) *realtime.Subscription {
	s.t.Helper()
	sub, err := s.hub.Subscribe(context.Background(), session, after)
	require.NoError(s.t, err)
	s.t.Cleanup(sub.Close)

	return sub
}

// reached waits until the hub has seen an event.
func (s *env) reached(seq uint64) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.hub.Stats().Position >= seq }, time.Minute, time.Millisecond)
}

// next takes n events.
func next(t testing.TB, sub *realtime.Subscription, n int) []domain.LoggedEvent {
	t.Helper()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	var out []domain.LoggedEvent
	for len(out) < n {
		e, err := sub.Next(ctx)
		require.NoError(t, err, "after %d of %d events", len(out), n)
		out = append(out, e)
	}

	return out
}

// nothing checks that no event waits, by one of its own that comes next.
func (s *env) nothing(sub *realtime.Subscription) {
	s.t.Helper()
	seq := s.publish(domain.Event{SessionID: sub.Snapshot().SessionID, Name: "mark", At: time.Now()})
	require.Equal(s.t, seq, next(s.t, sub, 1)[0].Seq)
}

// fakeState is the state that a database would hold.
type fakeState struct {
	mu       sync.Mutex
	sessions map[domain.SessionID]domain.LiveState
	after    map[domain.TurnID]uint64 // positions before the turn:start of turns
	err      error
	read     func() // is called once, after the state was read and before its reader has it
}

func (r *fakeState) Live(_ context.Context, sessionID domain.SessionID) (domain.LiveState, error) {
	r.mu.Lock()
	live, err, read := r.sessions[sessionID], r.err, r.read
	r.read = nil
	r.mu.Unlock()

	if read != nil {
		read()
	}

	return live, err
}

func (r *fakeState) TurnsAfter(_ context.Context, _ domain.SessionID, turns []domain.TurnID) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	position := ^uint64(0)
	for _, id := range turns {
		position = min(position, r.after[id])
	}

	return position, r.err
}

func (r *fakeState) startOf(id domain.TurnID) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.after[id]
}

// starts notes a position before the turn:start of a turn.
func (r *fakeState) starts(id domain.TurnID, after uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.after[id] = after
}

func (r *fakeState) set(sessionID domain.SessionID, live domain.LiveState) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.sessions[sessionID] = live
}

func event(session domain.SessionID, name string, data map[string]any) domain.Event {
	if data == nil {
		data = map[string]any{}
	}

	body, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}

	e := domain.Event{SessionID: session, Name: name, ChatID: "c1", At: time.Now(), Data: body}
	if name != domain.EventTurnPatch {
		e.ID = domain.NewID()
	}

	return e
}

func units(text string) int { return len(utf16.Encode([]rune(text))) }

// viewer is what a client makes of a snapshot and the events behind it. It
// appends text without a look at what it has, so that any delta that
// comes twice or not at all shows.
type viewer struct {
	turns map[domain.TurnID][]domain.Block
	ended map[domain.TurnID]string // turn id → text of its blocks when it ended
	prev  uint64
}

func newViewer(snapshot realtime.Snapshot) *viewer {
	v := &viewer{turns: map[domain.TurnID][]domain.Block{}, ended: map[domain.TurnID]string{}, prev: snapshot.Seq}
	for _, turn := range snapshot.OpenTurns {
		v.turns[turn.TurnID] = turn.Blocks
	}

	return v
}

func (v *viewer) take(e domain.LoggedEvent) error {
	if e.PrevSeq != v.prev {
		return fmt.Errorf("event %d names %d as the one before it, not %d", e.Seq, e.PrevSeq, v.prev)
	}

	v.prev = e.Seq

	var p struct {
		TurnID    domain.TurnID    `json:"turn_id"`
		Status    string           `json:"status"`
		PatchType string           `json:"patch_type"`
		BlockType domain.BlockType `json:"block_type"`
		TextDelta string           `json:"text_delta"`
		Offset    int              `json:"offset"`
	}
	if len(e.Data) > 0 {
		if err := json.Unmarshal(e.Data, &p); err != nil {
			return err
		}
	}

	blocks, open := v.turns[p.TurnID]
	switch {
	case e.Name == domain.EventTurnStart:
		if open {
			return fmt.Errorf("turn %s starts twice", p.TurnID)
		}

		v.turns[p.TurnID] = nil
	case e.Name == domain.EventTurnEnd && p.Status != "paused":
		if !open {
			return fmt.Errorf("turn %s ends and was not open", p.TurnID)
		}

		v.ended[p.TurnID] = text(blocks)
		delete(v.turns, p.TurnID)
	case p.PatchType == domain.PatchAddContent:
		if !open {
			return fmt.Errorf("text for turn %s, which is not open", p.TurnID)
		}

		if p.Offset == 0 {
			blocks = append(blocks, domain.Block{Type: p.BlockType})
		}

		at := len(blocks) - 1
		if at < 0 || blocks[at].Type != p.BlockType || units(blocks[at].Content) != p.Offset {
			return fmt.Errorf("event %d: text at %s offset %d does not follow %v", e.Seq, p.BlockType, p.Offset, blocks)
		}

		blocks[at].Content += p.TextDelta
		v.turns[p.TurnID] = blocks
	}

	return nil
}

func text(blocks []domain.Block) string {
	out := ""

	for _, b := range blocks {
		if b.Type == domain.BlockThinking || b.Type == domain.BlockText {
			out += fmt.Sprintf("[%s %s]", b.Type, b.Content)
		}
	}

	return out
}
