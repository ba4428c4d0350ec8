package domain

// OpenTurn is a stored turn that still streams, or is paused on a question: Blocks contain the
// stream up to the log position FlushedSeq; later text is in the event log.
type OpenTurn struct {
	Turn
	SessionID  SessionID
	FlushedSeq uint64
}

// LiveState is the state of a session in the database at one moment: the part of a
// subscription's answer that does not come from the event log.
type LiveState struct {
	Status        SessionStatus
	WaitingReason WaitingReason
	ChatID        ChatID // the chat that runs or waits for an answer; empty when none
	OpenTurns     []OpenTurn
	// TurnsAfter is a position of the event log before the turn:start of each open turn, of
	// each turn whose turn:end is not published yet, and of all future turns; 0: unknown.
	TurnsAfter uint64
	Questions  []Question
	Queue      []QueuedMessage
	LastEnd    *LastEnd
}
