package domain

import (
	"encoding/json"
	"time"
)

// ImportedSession is a session that was read from an archive, with ids of its
// own, ready to be written in one transaction.
type ImportedSession struct {
	Session Session // ID, OwnerID, SandboxUID, Status and settings
	Tree    SessionTree
	// Entries yields the turns, parents before children; it may be called again.
	Entries func(yield func(EntryRecord) error) error
	Tasks   []SessionTask
	Extra   json.RawMessage
	Events  *EventArchive // nil: none
}

// ImportPreview tells what an archive holds (shapes.md section 4).
type ImportPreview struct {
	FormatVersion int            `json:"format_version"`
	Compatible    bool           `json:"compatible"`
	Session       ImportSummary  `json:"session"`
	Counts        ImportCounts   `json:"counts"`
	Missing       []MissingThing `json:"missing" nullable:"false"`
	Warnings      []string       `json:"warnings" nullable:"false"`
	Errors        []string       `json:"errors" nullable:"false"`
}

// ImportSummary names the session of an archive.
type ImportSummary struct {
	Intent    string    `json:"intent"`
	Model     string    `json:"model"`
	CreatedAt time.Time `json:"created_at"`
}

// ImportCounts say how much an archive holds.
type ImportCounts struct {
	Turns       int   `json:"turns"`
	Files       int   `json:"files"`
	Bytes       int64 `json:"bytes"`
	Checkpoints int   `json:"checkpoints"`
	Branches    int   `json:"branches"`
}

// MissingThing is something that the session names and this installation does
// not have.
type MissingThing struct {
	Kind string `json:"kind" enum:"model,skill,solution"`
	Name string `json:"name"`
}

// ImportedFrom says where an imported session comes from.
type ImportedFrom struct {
	SessionID      string    `json:"session_id"`
	Intent         string    `json:"intent"`
	ExportedAt     time.Time `json:"exported_at"`
	ServiceVersion string    `json:"service_version"`
	FormatVersion  int       `json:"format_version"`
}

// ExportParts say what of a session its reader may carry away besides the
// conversation.
type ExportParts struct {
	Private bool // what is the owner's alone: memories, names of the environment's variables
	Files   bool // the workspace, now and at checkpoints
}

// ImportOptions change what is imported.
type ImportOptions struct {
	Name       string  // the session's intent; empty: as it was
	SolutionID *string // nil: as it was, where there is such a one
}
