package contract

import (
	"everloop/domain"
	"everloop/internal/durable"
)

// WorkflowDeleteSession is the run that removes what a deleted session held.
const WorkflowDeleteSession = "DeleteSession"

// DeleteSessionInput names a session that is deleted already: no client sees it any
// more.
type DeleteSessionInput struct {
	SessionID domain.SessionID `json:"session_id"`
}

// The parts of a deletion, from the outside in: rows go last, because a deletion whose
// run was lost is found again by them. Each may be run again at any point.
var (
	EndSessionWork     = durable.Activity[DeleteSessionInput, struct{}]{Name: "session.end_work", Preset: durable.Cleanup}
	RemoveSessionFiles = durable.Activity[DeleteSessionInput, struct{}]{Name: "session.remove_files", Preset: durable.Cleanup}
	RemoveSessionRows  = durable.Activity[DeleteSessionInput, struct{}]{Name: "session.remove_rows", Preset: durable.Cleanup}
)
