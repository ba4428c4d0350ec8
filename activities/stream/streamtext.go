package stream

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"everloop/domain"
)

// nextDelta returns the delta that starts at a place, the n-th of its turn, and where it
// ends. The mutex is held.
func (s *Stream) nextDelta(from textPlace, n int) (domain.Event, textPlace) {
	for from.block < len(s.blocks)-1 && from.bytes == s.blocks[from.block].text.Len() {
		from = textPlace{block: from.block + 1}
	}

	block := s.blocks[from.block]

	limit := maxDelta
	if n == 0 {
		limit = min(limit, s.first)
	}

	text := cut(block.text.String()[from.bytes:], limit)
	to := textPlace{block: from.block, bytes: from.bytes + len(text), units: from.units + domain.UTF16Len(text)}
	data, _ := json.Marshal(domain.AddContentPatch{ // strings and a number: it never fails
		TurnID: s.turn.EntryID, PatchType: domain.PatchAddContent, TextDelta: text, BlockType: block.kind, Offset: from.units,
	})

	return domain.Event{
		ID: s.deltaID(n), SessionID: s.turn.Session.ID, ChatID: s.turn.Chat.ID, Name: domain.EventTurnPatch,
		At: time.Now().UTC(), Data: data,
	}, to
}

// deltaID names a delta within its session. It is short, for there are many: the
// random end of the turn's id, the attempt and a number.
func (s *Stream) deltaID(n int) string {
	id := s.turn.EntryID
	return fmt.Sprintf("%s-%d-%d", id[max(0, len(id)-12):], s.turn.Attempt, n)
}

// cut returns the beginning of text with at most limit bytes, in whole characters.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}

	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}

	return text[:limit]
}

// end returns the place behind all text. The mutex is held.
func (s *Stream) end() textPlace {
	if len(s.blocks) == 0 {
		return textPlace{}
	}

	last := len(s.blocks) - 1

	return textPlace{block: last, bytes: s.blocks[last].text.Len()}
}

// between counts the bytes between two places. The mutex is held.
func (s *Stream) between(from, to textPlace) int {
	n := to.bytes - from.bytes
	for i := from.block; i < to.block; i++ {
		n += s.blocks[i].text.Len()
	}

	return n
}

// textUpTo returns the blocks up to a place. The mutex is held.
func (s *Stream) textUpTo(to textPlace) []domain.Block {
	blocks := make([]domain.Block, 0, len(s.blocks))
	for i, b := range s.blocks {
		text := b.text.String()
		if i == to.block {
			text = text[:to.bytes]
		}

		if i > to.block || text == "" {
			break
		}

		blocks = append(blocks, domain.Block{Type: b.kind, Content: text})
	}

	return blocks
}

// unpublished makes deltas of the text that is not published. The first is the
// one that was not acknowledged, unchanged, so that the log can recognise it. The mutex
// is held, and nothing is being published.
func (s *Stream) unpublished() []domain.UnpublishedDelta {
	var deltas []domain.UnpublishedDelta

	at, n := s.sent, s.deltas
	if s.unsure != nil {
		deltas = append(deltas, domain.UnpublishedDelta{Event: *s.unsure, Maybe: true, After: s.last})
		at = s.unsureTo
		n++
	}

	for s.between(at, s.end()) > 0 {
		var event domain.Event

		event, at = s.nextDelta(at, n)
		deltas = append(deltas, domain.UnpublishedDelta{Event: event})
		n++
	}

	return deltas
}
