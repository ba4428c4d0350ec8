package conversation

// JoinTaskNotes is joinTaskNotes for the tests outside.
var JoinTaskNotes = joinTaskNotes
