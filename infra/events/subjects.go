package events

import (
	"strings"

	"everloop/domain"
)

// edgeToken ends the subject of a session's turn:start and turn:end events.
const edgeToken = ".edge"

// flow returns the subject of a session's events but its turn edges.
func (l *Log) flow(sessionID domain.SessionID) string {
	return l.cfg.SubjectPrefix + "." + string(sessionID)
}

// edge returns the subject of a session's turn edges.
func (l *Log) edge(sessionID domain.SessionID) string { return l.flow(sessionID) + edgeToken }

// subjectOf returns the subject of an event.
func (l *Log) subjectOf(e domain.Event) string {
	if e.Name == domain.EventTurnStart || e.Name == domain.EventTurnEnd {
		return l.edge(e.SessionID)
	}

	return l.flow(e.SessionID)
}

// sessionOf returns the session's id in a subject; it does not allocate.
func (l *Log) sessionOf(subject string) string {
	id := subject[min(len(subject), len(l.cfg.SubjectPrefix)+1):]
	return strings.TrimSuffix(id, edgeToken)
}

// token rejects an id that is not a single token of a NATS subject: such an id would address
// events of other sessions.
func token(kind string, id domain.SessionID) error {
	if id == "" || len(id) > 128 {
		return domain.Invalidf(kind, "must have 1 to 128 characters")
	}

	for i := range len(id) {
		if c := id[i]; c <= ' ' || c == '.' || c == '*' || c == '>' || c >= 0x7f {
			return domain.Invalidf(kind, "is not an id")
		}
	}

	return nil
}
