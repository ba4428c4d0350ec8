package realtime

import (
	"encoding/json"

	"everloop/domain"
)

// maxEndedTurns bounds the ended turns that a subscription remembers.
const maxEndedTurns = 64

// endedTurns contains the newest turns whose end a subscription has seen. The deltas of a
// stalled worker may follow the end of their turn, which another worker wrote: clients must not
// see them.
type endedTurns struct {
	ids  []domain.TurnID
	next int
}

// late records ends of turns, and reports whether an event is a delta after the end of its
// turn.
func (e *endedTurns) late(it *item) bool {
	switch it.event.Name {
	case domain.EventTurnEnd:
		if turn := it.turnOf(); turn.Status != domain.TurnPaused {
			e.add(turn.TurnID)
		}
	case domain.EventTurnPatch:
		if len(e.ids) == 0 {
			return false
		}

		turn := it.turnOf()
		if turn.PatchType != domain.PatchAddContent || turn.Transcript {
			return false // results of tools and transcripts follow the end of the turn
		}

		for _, id := range e.ids {
			if id == turn.TurnID {
				return true
			}
		}
	}

	return false
}

func (e *endedTurns) add(id domain.TurnID) {
	if len(e.ids) < maxEndedTurns {
		e.ids = append(e.ids, id)
		return
	}

	e.ids[e.next] = id
	e.next = (e.next + 1) % maxEndedTurns
}

// turnFields are the fields of an event that late needs.
type turnFields struct {
	TurnID    domain.TurnID     `json:"turn_id"`
	Status    domain.TurnStatus `json:"status"`
	PatchType string            `json:"patch_type"`

	Transcript bool `json:"transcript"`
}

// turnOf parses the event's turn, once for all subscriptions. An event that cannot be parsed
// has no turn.
func (it *item) turnOf() turnFields {
	it.mu.Lock()
	defer it.mu.Unlock()

	if it.turn == nil {
		it.turn = &turnFields{}
		if err := json.Unmarshal(it.event.Data, it.turn); err != nil {
			it.turn = &turnFields{}
		}
	}

	return *it.turn
}

// behind returns a copy of the item with another previous event.
func (it *item) behind(prev uint64) *item {
	e := it.event
	e.PrevSeq = prev

	return ready(e)
}
