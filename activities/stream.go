package activities

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"
	"unicode/utf16"

	"everloop/domain"
)

// Deltas are joined before they are published: the first goes out at once, the
// others after 20 ms or with 2 KB, whatever comes first. What is published is
// kept in the records about once a second.
const (
	publishEvery = 20 * time.Millisecond
	publishBytes = 2 << 10
	flushEvery   = time.Second
)

// turnStream publishes what a model says, in order, as patches of one turn. It
// stops at the first error, which fenced workers get too.
type turnStream struct {
	ctx   context.Context
	turn  domain.OpenedTurn
	log   EventLog
	turns Turns

	mu        sync.Mutex
	blocks    []*openBlock
	pending   strings.Builder // of the last block, not yet published
	timer     *time.Timer
	published time.Time
	flushed   time.Time
	seq, kept uint64 // of what is published, and of what is in the records
	err       error
	broke     func(error) // tells the model call that publishing failed
}

type openBlock struct {
	kind domain.BlockType
	text strings.Builder
	sent int // UTF-16 units published
}

func newTurnStream(ctx context.Context, turn domain.OpenedTurn, log EventLog, turns Turns, broke func(error)) *turnStream {
	s := &turnStream{ctx: ctx, turn: turn, log: log, turns: turns, broke: broke, flushed: time.Now()}
	s.timer = time.AfterFunc(time.Hour, s.due)
	s.timer.Stop()
	return s
}

// Add takes the next piece of the answer.
func (s *turnStream) Add(d domain.Delta) error {
	kind := domain.BlockText
	if d.Kind == domain.DeltaThinking {
		kind = domain.BlockThinking
	}
	text := domain.CleanText(d.Text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || text == "" {
		return s.err
	}
	if n := len(s.blocks); n == 0 || s.blocks[n-1].kind != kind {
		s.publishLocked()
		s.blocks = append(s.blocks, &openBlock{kind: kind})
	}
	s.blocks[len(s.blocks)-1].text.WriteString(text)
	s.pending.WriteString(text)
	if wait := publishEvery - time.Since(s.published); wait <= 0 || s.pending.Len() >= publishBytes {
		s.publishLocked()
	} else if s.pending.Len() == len(text) { // the first piece that waits
		s.timer.Reset(wait)
	}
	return s.err
}

func (s *turnStream) due() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publishLocked()
	s.keepLocked()
}

func (s *turnStream) publishLocked() {
	if s.pending.Len() == 0 || s.err != nil {
		return
	}
	block := s.blocks[len(s.blocks)-1]
	text := s.pending.String()
	s.pending.Reset()
	data, err := json.Marshal(domain.AddContentPatch{
		TurnID: s.turn.EntryID, PatchType: domain.PatchAddContent, TextDelta: text, BlockType: block.kind, Offset: block.sent,
	})
	if err != nil {
		s.fail(err)
		return
	}
	seq, err := s.log.Publish(s.ctx, domain.Event{
		SessionID: s.turn.Session.ID, ChatID: s.turn.Chat.ID, Name: domain.EventTurnPatch, At: time.Now().UTC(), Data: data,
	})
	if err != nil {
		s.fail(err)
		return
	}
	block.sent += utf16Len(text)
	s.seq, s.published = seq, time.Now()
	s.keepLocked()
}

// keepLocked puts what is published into the records when it is time, and else
// sees to it that this happens also if nothing more is said for a while.
func (s *turnStream) keepLocked() {
	if s.err != nil || s.kept == s.seq {
		return
	}
	if wait := flushEvery - time.Since(s.flushed); wait > 0 {
		if s.pending.Len() == 0 { // else the timer is set for what waits
			s.timer.Reset(wait)
		}
		return
	}
	s.flushed, s.kept = time.Now(), s.seq
	if err := s.turns.FlushTurn(s.ctx, s.turn.EntryID, s.turn.Attempt, s.snapshot(), s.seq); err != nil {
		s.fail(err)
	}
}

func (s *turnStream) fail(err error) {
	s.err = err
	s.broke(err)
}

// Finish publishes what waits and gives the blocks of the turn. Afterwards
// nothing more is published.
func (s *turnStream) Finish() ([]domain.Block, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publishLocked()
	s.timer.Stop()
	err := s.err
	if err == nil {
		s.err = domain.ErrFenced // late deltas are refused
	}
	return s.snapshot(), err
}

// Shown reports whether clients have seen anything of this turn.
func (s *turnStream) Shown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.blocks) > 0
}

func (s *turnStream) snapshot() []domain.Block {
	blocks := make([]domain.Block, len(s.blocks))
	for i, b := range s.blocks {
		blocks[i] = domain.Block{Type: b.kind, Content: b.text.String()}
	}
	return blocks
}

func utf16Len(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}
