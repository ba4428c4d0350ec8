package domain

// OpenTurn is a turn that still streams, or is paused on a question, as the
// records hold it: Blocks contain the stream up to the log position FlushedSeq;
// what came later is in the event log.
type OpenTurn struct {
	Turn
	SessionID  SessionID
	FlushedSeq uint64
}

// LiveState is what the database says of a session at one moment: the part of a
// subscription's answer that does not come from the event log.
type LiveState struct {
	Status        SessionStatus
	WaitingReason WaitingReason
	ChatID        ChatID // the chat that runs or waits for an answer; empty when none
	OpenTurns     []OpenTurn
	// TurnsAfter is a position of the event log before the turn:start of each open turn, of
	// each turn whose turn:end is not published yet, and of all turns to come; 0: unknown.
	TurnsAfter uint64
	Questions  []Question
	Queue      []QueuedMessage
	LastEnd    *LastEnd
}
