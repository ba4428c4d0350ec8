package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/events"
	"everloop/internal/testkit"
)

const streamPatience = 2 * time.Minute

// flushedTurns keeps what is flushed of a turn.
type flushedTurns struct {
	Turns
	mu     sync.Mutex
	blocks []domain.Block
	seq    uint64
	err    error
}

func (f *flushedTurns) Published(context.Context, domain.SessionID) error { return nil }

func (f *flushedTurns) FlushTurn(_ context.Context, _ domain.TurnID, _ int, blocks []domain.Block, seq uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.blocks, f.seq = blocks, seq

	return f.err
}

// streamBench is a turn that streams into a real event log behind a proxy.
type streamBench struct {
	*Stream
	t       *testing.T
	proxy   *testkit.FaultProxy
	through *events.Log // by the proxy, as the stream publishes
	log     *events.Log
	turns   *flushedTurns
	said    strings.Builder
}

func newStreamBench(t *testing.T) *streamBench {
	t.Helper()
	url, prefix := testkit.Events(t), testkit.Prefix(t)
	b := &streamBench{t: t, proxy: testkit.Proxy(t, url), turns: &flushedTurns{}}
	open := func(url string) *events.Log {
		nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.Timeout(time.Minute))
		require.NoError(t, err)
		t.Cleanup(nc.Close)
		log, err := events.Open(
			t.Context(), nc, events.Config{Stream: prefix, SubjectPrefix: prefix, Logger: slog.New(slog.DiscardHandler)},
		)
		require.NoError(t, err)

		return log
	}
	b.log = open(url)
	b.through = open(b.proxy.URL(t, url))
	turn := domain.OpenedTurn{EntryID: domain.TurnID(domain.NewID()), Attempt: 1}
	turn.Session.ID, turn.Chat.ID = domain.SessionID(domain.NewID()), domain.ChatID(domain.NewID())
	b.Stream = New(t.Context(), turn, b.through, b.turns, func(error) {})

	return b
}

// say adds pieces of the answer, thinking first.
func (b *streamBench) say(kind domain.DeltaKind, from, to int) {
	b.t.Helper()

	for n := from; n < to; n++ {
		text := fmt.Sprintf("piece %d of 😀; ", n)
		require.NoError(b.t, b.Add(domain.Delta{Kind: kind, Text: text}))

		if kind != domain.DeltaThinking {
			b.said.WriteString(text)
		}
	}
}

func (b *streamBench) untilFailing() {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()

		return b.failing
	}, streamPatience, 5*time.Millisecond)
}

func (b *streamBench) untilPublished() {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()

		return b.waiting == 0
	}, streamPatience, 5*time.Millisecond)
}

// whole ends the turn, publishes what its end has to, and checks what a client
// sees: each offset once, and all of the text.
func (b *streamBench) whole() {
	b.t.Helper()
	blocks, unpublished, err := b.Finish()
	require.NoError(b.t, err)
	require.Equal(b.t, b.said.String(), blocks[len(blocks)-1].Content)
	b.proxy.Resume()

	for _, d := range unpublished {
		if d.Maybe {
			_, err = b.through.Repeat(b.t.Context(), d.Event, d.After)
		} else {
			_, err = b.through.Publish(b.t.Context(), d.Event)
		}

		require.NoError(b.t, err)
	}

	lengths := map[domain.BlockType]int{}
	texts := map[domain.BlockType]string{}

	require.NoError(b.t, b.log.Read(b.t.Context(), b.turn.Session.ID, 0, math.MaxUint64, func(e domain.LoggedEvent) error {
		var p domain.AddContentPatch
		require.NoError(b.t, json.Unmarshal(e.Data, &p))
		require.Equal(b.t, lengths[p.BlockType], p.Offset, "neither a gap nor a repeat")
		lengths[p.BlockType] += domain.UTF16Len(p.TextDelta)
		texts[p.BlockType] += p.TextDelta

		return nil
	}))

	for _, block := range blocks {
		require.Equal(b.t, block.Content, texts[block.Type])
	}

	_, err = b.log.Last(b.t.Context(), b.turn.Session.ID)
	require.NoError(b.t, err)
	require.ErrorIs(b.t, b.Add(domain.Delta{Text: "late"}), domain.ErrFenced)
}

func TestStream_publishesEachOffsetOnce(t *testing.T) {
	t.Parallel()

	for name, during := range map[string]func(b *streamBench){
		"event log answers": func(*streamBench) {},
		"event log stands still and goes on": func(b *streamBench) {
			b.proxy.Pause()
			b.say(domain.DeltaText, 10, 3000)
			b.untilFailing()
			b.proxy.Resume()
		},
		"event log stands still to the end": func(b *streamBench) {
			b.untilPublished()
			b.proxy.Pause()
			b.say(domain.DeltaText, 10, 3000)
			b.untilFailing()
		},
		"event log stands still at the end": func(b *streamBench) {
			b.untilPublished()
			b.proxy.Pause()
			b.say(domain.DeltaText, 10, 20)
		},
		"connections are reset": func(b *streamBench) {
			for n := 10; n < 200; n += 10 {
				b.say(domain.DeltaText, n, n+10)
				b.proxy.Reset()
			}
		},
		"event log is down for a while": func(b *streamBench) {
			b.proxy.Down()
			b.say(domain.DeltaText, 10, 200)
			b.untilFailing()
			b.proxy.Up()
			b.say(domain.DeltaText, 200, 300)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newStreamBench(t)
			b.say(domain.DeltaThinking, 0, 5)
			b.say(domain.DeltaText, 0, 10)
			during(b)
			b.whole()
		})
	}
}

// The text in the database is that of the position that is kept with it.
func TestStream_flushesWhatIsPublished(t *testing.T) {
	t.Parallel()
	b := newStreamBench(t)
	b.say(domain.DeltaText, 0, 3)
	require.Eventually(t, func() bool {
		b.turns.mu.Lock()
		defer b.turns.mu.Unlock()

		return len(b.turns.blocks) == 1 && b.turns.blocks[0].Content == b.said.String()
	}, streamPatience, 5*time.Millisecond)
	last, err := b.log.Last(t.Context(), b.turn.Session.ID)
	require.NoError(t, err)
	require.Equal(t, last, b.turns.seq)
	b.whole()
}

func TestStream_endsWhenItIsFenced(t *testing.T) {
	t.Parallel()
	b := newStreamBench(t)
	fenced := make(chan error, 1)
	b.broke = func(err error) { fenced <- err }
	b.turns.err = domain.ErrFenced
	b.say(domain.DeltaText, 0, 1)
	require.ErrorIs(t, <-fenced, domain.ErrFenced)
	require.ErrorIs(t, b.Add(domain.Delta{Text: "late"}), domain.ErrFenced)
	_, unpublished, err := b.Finish()
	require.ErrorIs(t, err, domain.ErrFenced)
	require.Empty(t, unpublished)
}
