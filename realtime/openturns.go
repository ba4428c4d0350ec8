package realtime

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"everloop/domain"
)

// openTurn is a turn that is open at a position, while it is reconstructed.
type openTurn struct {
	start  domain.LoggedEvent // its turn:start; Seq 0 when it is no longer stored
	status domain.TurnStatus  // at the position
	fold   *domain.TurnFold
	from   uint64 // fold contains the log up to here
}

// openTurns returns the turns that are open at position b, with their text streamed up to b. It
// determines them from the log's turn edges: turns with a start and no end at or before b; a
// paused turn is open until its second end. It reads the edges from the oldest of these turns
// on, not from the session's first. The stored turns save reading a turn's text from its start,
// and supply turns whose start is no longer stored.
func (h *Hub) openTurns(ctx context.Context, sessionID domain.SessionID, b uint64, live domain.LiveState) ([]domain.Turn, error) {
	turns := []domain.Turn{}
	if b == 0 {
		return turns, nil
	}

	after, err := h.startsAfter(ctx, sessionID, b, live.TurnsAfter)
	if err != nil {
		return nil, err
	}

	open, order, err := h.turnsAt(ctx, sessionID, after, b, live.OpenTurns)
	if err != nil {
		return nil, err
	}

	records := map[domain.TurnID]domain.OpenTurn{}
	for _, turn := range live.OpenTurns {
		records[turn.TurnID] = turn
	}

	for id, t := range open {
		t.begin(id, records[id], b)
	}

	if err := h.foldUpTo(ctx, sessionID, b, open); err != nil {
		return nil, err
	}

	for _, id := range order {
		if t := open[domain.TurnID(id)]; t != nil {
			turn := t.fold.Turn()
			turn.Status = t.status // the database may be ahead
			turns = append(turns, turn)
		}
	}

	return turns, nil
}

// edge contains the fields of turn:start and turn:end that turnsAt needs.
type edge struct {
	TurnID domain.TurnID     `json:"turn_id"`
	Status domain.TurnStatus `json:"status"`
}

func edgeOf(e domain.LoggedEvent) (p edge, err error) {
	if err := json.Unmarshal(e.Data, &p); err != nil {
		return p, fmt.Errorf("event %d, %s: %w", e.Seq, e.Name, err)
	}

	return p, nil
}

// startsAfter returns a position before the turn:start of every turn that is open at b, so that
// turns that ended before need not be read. live is that position for the turns which the
// database had open, or whose end was not published, when it was read. All other turns that are
// open at b end in an event after b, which was published before the database was read.
func (h *Hub) startsAfter(ctx context.Context, sessionID domain.SessionID, b, live uint64) (uint64, error) {
	if live == 0 {
		return 0, nil
	}

	var (
		started = map[domain.TurnID]bool{}
		ended   []domain.TurnID
	)

	err := h.cfg.Log.ReadEdges(ctx, sessionID, b, math.MaxUint64, func(e domain.LoggedEvent) error {
		p, err := edgeOf(e)
		if err != nil {
			return err
		}

		if e.Name == domain.EventTurnEnd && !started[p.TurnID] {
			ended = append(ended, p.TurnID)
		}

		started[p.TurnID] = true // a second end has no effect

		return nil
	})
	if err != nil || len(ended) == 0 {
		return live, err
	}

	after, err := h.cfg.State.TurnsAfter(ctx, sessionID, ended)

	return min(live, after), err
}

// turnsAt returns the turns that are open at b, in order. Their turn:starts are after after.
func (h *Hub) turnsAt(
	ctx context.Context,
	sessionID domain.SessionID,
	after, b uint64,
	live []domain.OpenTurn,
) (map[domain.TurnID]*openTurn, []string, error) {
	open := map[domain.TurnID]*openTurn{}

	var order []string
	// A turn whose start was removed from the log is found only in the database.
	for _, turn := range live {
		if turn.FlushedSeq > 0 && turn.FlushedSeq <= b {
			open[turn.TurnID] = &openTurn{status: turn.Status}
			order = append(order, string(turn.TurnID))
		}
	}

	err := h.cfg.Log.ReadEdges(ctx, sessionID, after, b, func(e domain.LoggedEvent) error {
		p, err := edgeOf(e)
		if err != nil {
			return err
		}

		if e.LostSeq > 0 {
			e.Seq = e.LostSeq // the flushed text of the turn follows it
		}

		t := open[p.TurnID]
		switch {
		case e.Name == domain.EventTurnStart && t == nil:
			open[p.TurnID] = &openTurn{start: e, status: p.Status}
			order = append(order, string(p.TurnID))
		case e.Name == domain.EventTurnStart && t.start.Seq == 0:
			t.start, t.status = e, p.Status
		case e.Name == domain.EventTurnEnd && p.Status == domain.TurnPaused:
			if t != nil {
				t.status = domain.TurnPaused
			}
		case e.Name == domain.EventTurnEnd:
			delete(open, p.TurnID)
		}

		return nil
	})

	return open, order, err
}

// begin sets the base that the turn is folded from: the stored text if it is not ahead of b,
// else its turn:start. The records of tool calls may be ahead of the log, so a turn with tool
// calls is read from the log; so may the text of a paused turn, until the log contains its
// pause.
func (t *openTurn) begin(id domain.TurnID, record domain.OpenTurn, b uint64) {
	kept := t.start.Seq > 0
	ahead := len(record.ToolCalls) > 0 || record.Status == domain.TurnPaused && t.status != domain.TurnPaused

	flushed := record.FlushedSeq > 0 && record.FlushedSeq >= t.start.Seq && record.FlushedSeq <= b
	if flushed && (!kept || !ahead) {
		t.fold, t.from = domain.NewTurnFold(record.Turn), record.FlushedSeq
		return
	}

	t.restart(id, record)
}

// restart reconstructs the turn from the log alone.
func (t *openTurn) restart(id domain.TurnID, record domain.OpenTurn) {
	turn := record.Turn
	turn.TurnID, turn.Status = id, ""
	turn.Blocks, turn.ToolCalls = nil, nil
	turn.Usage, turn.DurationMS, turn.FailureReason = domain.Usage{}, 0, nil
	t.fold, t.from = domain.NewTurnFold(turn), t.start.Seq
	_ = t.fold.Apply(t.start) // its data was parsed before
}

// foldUpTo applies the log's events up to b to the open turns. A turn whose stored text does
// not match the log is reconstructed from its start.
func (h *Hub) foldUpTo(ctx context.Context, sessionID domain.SessionID, b uint64, open map[domain.TurnID]*openTurn) error {
	from := b
	for _, t := range open {
		from = min(from, t.from)
	}

	again := map[domain.TurnID]*openTurn{}

	if from < b {
		err := h.cfg.Log.Read(ctx, sessionID, from, b, func(e domain.LoggedEvent) error {
			if e.Name != domain.EventTurnPatch && e.Name != domain.EventTurnEnd {
				return nil
			}

			p, err := edgeOf(e)
			if err != nil {
				return err
			}

			t := open[p.TurnID]
			if t == nil || e.Seq <= t.from {
				return nil
			}

			if err := t.fold.Apply(e); err != nil {
				if t.start.Seq > 0 && t.from > t.start.Seq {
					again[p.TurnID] = t
				} else {
					h.cfg.Logger.Warn("open turn is missing events", "session_id", sessionID, "error", err)
				}
			}

			return nil
		})
		if err != nil {
			return err
		}
	}

	if len(again) == 0 {
		return nil
	}

	for id, t := range again {
		t.restart(id, domain.OpenTurn{Turn: t.fold.Turn()})
	}

	return h.foldUpTo(ctx, sessionID, b, again)
}
