// Package replay plays recorded sessions again. It makes the script of a new session of the
// events and records that are left of a session, plays the script, and changes how it is
// played. It runs no tool and calls no model.
package replay

import (
	"slices"

	"everloop/domain"
	"everloop/domain/replay"
	"everloop/domain/transfer"
)

// source is a session's active branch as its records hold it.
type source struct {
	sessionID domain.SessionID
	tree      transfer.SessionTree
	entries   []transfer.EntryRecord // in order
	chats     map[domain.ChatID]transfer.ChatRecord
	byChat    map[domain.ChatID][]transfer.EntryRecord
	order     []string // chats with turns on the branch, in order
	on        map[domain.TurnID]*transfer.EntryRecord
	events    map[domain.ChatID][]domain.LoggedEvent // that can be played, by chat
}

// playable are the events that a replay plays; the summaries of the session come
// of themselves.
var playable = []string{
	domain.EventChatStart, domain.EventChatEnd, domain.EventTurnStart, domain.EventTurnPatch, domain.EventTurnEnd,
	domain.EventQuestionResolved, domain.EventSessionCompacted, domain.EventFileChanged,
}

func newSource(sessionID domain.SessionID) *source {
	return &source{
		sessionID: sessionID, chats: map[domain.ChatID]transfer.ChatRecord{}, byChat: map[domain.ChatID][]transfer.EntryRecord{},
		on: map[domain.TurnID]*transfer.EntryRecord{}, events: map[domain.ChatID][]domain.LoggedEvent{},
	}
}

func (s *source) frame(tree transfer.SessionTree) error {
	s.tree = tree
	for _, chat := range tree.Chats {
		s.chats[chat.ID] = chat
	}

	return nil
}

func (s *source) entry(e transfer.EntryRecord) error {
	if _, known := s.byChat[e.ChatID]; !known {
		s.order = append(s.order, string(e.ChatID))
	}

	s.entries = append(s.entries, e)
	s.byChat[e.ChatID] = append(s.byChat[e.ChatID], e)
	s.on[e.ID] = &e

	return nil
}

// event keeps an event of a chat of the branch. What belongs to no turn of the
// branch, because it was left, is passed over.
func (s *source) event(e domain.LoggedEvent) error {
	if !slices.Contains(playable, e.Name) {
		return nil
	}

	p, err := parse(e.Data)
	if err != nil {
		return nil //nolint:nilerr // a body that is gone: its chat is put together from the database
	}

	chat := e.ChatID
	if e.Name == domain.EventSessionCompacted && p.Turn != nil {
		if on := s.on[p.Turn.TurnID]; on != nil {
			chat = on.ChatID
		}
	}

	if _, known := s.byChat[chat]; !known {
		return nil
	}

	if turn := p.turn(); turn != "" && s.on[turn] == nil {
		return nil
	}

	s.events[chat] = append(s.events[chat], e)

	return nil
}

// reason returns why the branch cannot be replayed; "" when it can.
func (s *source) reason(session domain.Session) string {
	switch {
	case session.Replay.Plays(),
		session.Status == domain.SessionRunning, session.Status == domain.SessionWaitingForInput,
		session.ActiveChatID != nil, session.QueueLength > 0:
		return replay.Running
	case len(s.entries) == 0:
		return replay.NoTurns
	}

	for _, e := range s.entries {
		if e.Kind != domain.KindMessage && e.Kind != domain.KindCompaction {
			return replay.Unsupported
		}

		if e.Status == domain.TurnStreaming || e.Status == domain.TurnPaused {
			return replay.Running
		}
	}

	return ""
}
