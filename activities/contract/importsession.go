package contract

import (
	"everloop/domain"
	"everloop/internal/durable"
)

// WorkflowImport is the workflow type of imports of sessions.
const WorkflowImport = "Import"

// CodeImportGone is the error type of an import that does not exist any more.
const CodeImportGone = "import_not_found"

// ImportInput names the session that an import makes of an archive that was stored.
type ImportInput struct {
	SessionID domain.SessionID `json:"session_id"`
}

// The work of an import, and its end when an operator cancels it. The result is in
// the database.
var (
	LoadImport  = durable.Activity[ImportInput, struct{}]{Name: "import.load", Preset: durable.Files}
	AbortImport = durable.Activity[AbortImportIn, struct{}]{Name: "import.abort", Preset: durable.Files}
)

// AbortImportIn names the import to end, with the reason.
type AbortImportIn struct {
	SessionID domain.SessionID `json:"session_id"`
	Reason    string           `json:"reason"`
}
