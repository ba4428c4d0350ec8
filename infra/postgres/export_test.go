package postgres

// JoinTaskNotes is joinTaskNotes for the tests outside.
var JoinTaskNotes = joinTaskNotes

// ContextStatements are those by which a model call's history is read.
func ContextStatements() map[string]string {
	return map[string]string{"turns": toldTurns, "calls": toldCalls}
}
