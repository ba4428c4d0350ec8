package replay

import (
	"encoding/json"

	"everloop/domain"
	"everloop/domain/transfer"
)

// recorded gives the moments of a chat from its events, if they are all there:
// they start and end the chat, and put together they are its turns as the database
// hold them.
func (s *source) recorded(chatID domain.ChatID) (moments []moment, whole bool) {
	folds, ended := map[domain.TurnID]*domain.TurnFold{}, map[domain.TurnID]string{}
	started, open := false, false

	for _, e := range s.events[chatID] {
		p, err := parse(e.Data)
		if err != nil || !s.sound(e, p) {
			return nil, false
		}

		m := moment{at: e.At, name: e.Name, chatID: chatID, data: e.Data}
		switch e.Name {
		case domain.EventChatStart:
			if p.Resumed {
				continue // a crash of the source is no part of the replay
			}

			if m.data, err = asReplay(e.Data, p.Trigger); err != nil {
				return nil, false
			}

			if open || started != (p.Trigger == domain.TriggerAnswer) {
				return nil, false
			}

			started, open = true, true
		case domain.EventChatEnd:
			if !open || len(ended) < len(folds) {
				return nil, false
			}

			open = false
		case domain.EventTurnEnd:
			if before, twice := ended[p.TurnID]; twice && before != string(domain.TurnPaused) {
				return nil, false
			}

			ended[p.TurnID] = p.Status
		case domain.EventTurnStart:
			fold := domain.NewTurnFold(domain.Turn{TurnID: p.TurnID})
			folds[p.TurnID], m.entry = fold, s.on[p.TurnID]
		case domain.EventSessionCompacted:
			m.entry = s.on[p.turn()]
		}

		if fold := folds[p.TurnID]; fold != nil {
			if fold.Apply(e) != nil {
				return nil, false
			}
		} else if p.TurnID != "" && e.Name != domain.EventSessionCompacted && e.Name != domain.EventCheckpoint {
			return nil, false // of a turn that started before what is kept
		}

		if !started {
			return nil, false
		}

		moments = append(moments, m)
	}

	if !started || open {
		return nil, false
	}

	for i := range s.byChat[chatID] {
		if e := &s.byChat[chatID][i]; e.Kind == domain.KindMessage && (!same(e, folds[e.ID]) || ended[e.ID] != string(e.Status)) ||
			e.Kind == domain.KindCompaction && !has(moments, e.ID) {
			return nil, false
		}
	}

	return moments, true
}

// asReplay gives a chat:start its trigger: a chat that continues after an answer
// does so in a replay too.
func asReplay(data json.RawMessage, trigger domain.Trigger) (json.RawMessage, error) {
	var start domain.ChatStarted
	if err := json.Unmarshal(data, &start); err != nil {
		return nil, err
	}

	if trigger != domain.TriggerAnswer {
		start.Trigger = domain.TriggerReplay
	}

	return json.Marshal(start)
}

func has(moments []moment, turnID domain.TurnID) bool {
	for _, m := range moments {
		if m.entry != nil && m.entry.ID == turnID {
			return true
		}
	}

	return false
}

// same reports that the events of a turn make what the database holds of it.
func same(e *transfer.EntryRecord, fold *domain.TurnFold) bool {
	if fold == nil {
		return false
	}

	turn := fold.Turn()
	if turn.Status != e.Status || len(turn.ToolCalls) != len(e.Calls) {
		return false
	}

	for i, call := range e.Calls {
		if got := turn.ToolCalls[i]; got.ID != call.ID || got.Status != call.Status || got.Result != call.Result {
			return false
		}
	}

	var said []domain.Block

	for _, b := range turn.Blocks {
		if b.Type != domain.BlockToolUse && b.Type != domain.BlockToolResult {
			said = append(said, b)
		}
	}

	if len(said) != len(e.Blocks) {
		return false
	}

	for i, b := range e.Blocks {
		if said[i].Type != b.Type || said[i].Content != b.Content {
			return false
		}
	}

	return true
}
