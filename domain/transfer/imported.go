package transfer

import (
	"encoding/json"
	"time"

	"everloop/domain"
)

// ImportedSession is a session that was read from an archive, with new ids, ready to be written
// in one transaction.
type ImportedSession struct {
	Session domain.Session // ID, OwnerID, SandboxUID, Status and settings
	Tree    SessionTree
	// Entries yields the turns, parents before children; it may be called again.
	Entries func(yield func(EntryRecord) error) error
	Tasks   []domain.SessionTask
	Extra   json.RawMessage
	Events  []EventArchive
	Attempt int // of the import
	From    ImportedFrom
}

// ImportPreview describes the content of an archive (docs/sharing.md#import).
type ImportPreview struct {
	FormatVersion int            `json:"format_version" doc:"Version of the archive format." example:"1"`
	Compatible    bool           `json:"compatible" doc:"Whether it can be imported."`
	Session       ImportSummary  `json:"session" doc:"The session in the archive."`
	Counts        ImportCounts   `json:"counts" doc:"The number of entries in the archive."`
	Missing       []MissingThing `json:"missing" nullable:"false" doc:"What this installation does not have and the import leaves out."`
	Warnings      []string       `json:"warnings" nullable:"false" doc:"Differences after the import." example:"[\"the environment has to be set again: GREETING\"]"`
	Errors        []string       `json:"errors" nullable:"false" doc:"The reasons why it cannot be imported."`
}

// ImportSummary names the session of an archive.
type ImportSummary struct {
	Intent    string     `json:"intent" doc:"The purpose of the session." example:"Write the release notes of June"`
	Model     string     `json:"model" doc:"The model."`
	CreatedAt *time.Time `json:"created_at" nullable:"true" doc:"Creation time; null: the archive cannot be read."`
}

// ImportCounts counts the content of an archive.
type ImportCounts struct {
	Turns       int   `json:"turns" doc:"Number of turns in all branches." example:"19"`
	Files       int   `json:"files" doc:"Number of files in the workspace." example:"7"`
	Bytes       int64 `json:"bytes" doc:"Their total size in bytes." example:"340"`
	Checkpoints int   `json:"checkpoints" doc:"The checkpoints." example:"12"`
	Branches    int   `json:"branches" doc:"Number of branches." example:"2"`
}

// MissingThing is a resource that the session refers to and this installation does not have.
type MissingThing struct {
	Kind string `json:"kind" enum:"model,skill,solution" doc:"The type."`
	Name string `json:"name" doc:"Its name."`
}

// ImportedFrom is the origin of an imported session.
type ImportedFrom struct {
	SessionID      domain.SessionID `json:"session_id" doc:"The session." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	Intent         string           `json:"intent" doc:"The purpose of the session." example:"Write the release notes of June"`
	ExportedAt     time.Time        `json:"exported_at" doc:"Creation time of the archive."`
	ServiceVersion string           `json:"service_version" doc:"The version of the service that wrote the archive." example:"2611.0.0"`
	FormatVersion  int              `json:"format_version" doc:"Version of the archive format." example:"1"`
}

// ExportParts selects the parts of a session that its reader can export in addition to the
// conversation.
type ExportParts struct {
	Private bool // data only for the owner: memories, names of the environment's variables
	Files   bool // the workspace, now and at checkpoints
}

// ImportOptions override imported fields.
type ImportOptions struct {
	Name       string  `json:"name,omitempty"`        // the session's intent; empty: unchanged
	SolutionID *string `json:"solution_id,omitempty"` // nil: unchanged, if it exists here
}

// ImportState is the progress of an import.
type ImportState string

// An import is uploading until its archive is stored, and running until its workflow has
// created the session or has removed everything it wrote.
const (
	ImportUploading ImportState = "uploading"
	ImportRunning   ImportState = "running"
	ImportDone      ImportState = "done"
	ImportFailed    ImportState = "failed"
)

// Import is one import, of which SessionID is the session that it creates.
type Import struct {
	SessionID  domain.SessionID
	OwnerID    string
	State      ImportState
	Attempt    int
	SandboxUID int
	Parts      []int64 // sizes of the objects of the archive, in bytes
	Options    ImportOptions
}

// ArchiveUpload is an archive that is stored and not imported yet.
type ArchiveUpload struct {
	SessionID domain.SessionID // that the import will create
	Size      int64            // bytes
	SHA256    []byte
}

// ImportRequest requests the import of an uploaded archive.
type ImportRequest struct {
	OwnerID string
	Upload  ArchiveUpload
	Options ImportOptions
	// Key is the Idempotency-Key: a repeated request of a user with the same key receives the
	// result of the first. Empty: none.
	Key string
}
