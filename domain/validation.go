package domain

import (
	"fmt"
	"time"
)

// DocumentKind is one of the two documents that a production solution has.
type DocumentKind string

// The kinds of documents.
const (
	DocumentDAG          DocumentKind = "dag"
	DocumentArchitecture DocumentKind = "architecture"
)

// DocumentVersion is one version of a document without its content. Versions are immutable;
// Published reports whether the version is in effect now.
type DocumentVersion struct {
	Version   int
	Digest    string
	Message   string
	CreatedBy string
	CreatedAt time.Time
	Published bool
	NodeCount int
	EdgeCount int
	Runs      int // of this version of a DAG
}

// Finding is one problem found by the validation of a document. Path is a location within the
// document, such as nodes[2].config.prompt.
type Finding struct {
	Code    string `json:"code" doc:"What is wrong, for programs." example:"cycle"`
	Message string `json:"message" doc:"What is wrong, for people."`
	NodeID  string `json:"node_id,omitempty" doc:"The node that it is about." example:"review"`
	EdgeID  string `json:"edge_id,omitempty" doc:"The edge that it is about." example:"e1"`
	Path    string `json:"path,omitempty" doc:"The location within the document." example:"nodes[2].config.prompt"`
}

// Validation is the result of validating a document: it is valid without errors.
type Validation struct {
	Valid    bool      `json:"valid" doc:"Whether it can be published."`
	Errors   []Finding `json:"errors" nullable:"false" doc:"What keeps it from being published."`
	Warnings []Finding `json:"warnings" nullable:"false" doc:"What is probably not meant."`
}

// Failed returns the error of publishing an invalid document.
func (v Validation) Failed(kind DocumentKind) *Error {
	e := &Error{Kind: Invalid, Code: CodeValidationFailed, Validation: &v}

	e.Message = fmt.Sprintf("the document has %d errors; the first one: %s", len(v.Errors), v.Errors[0].Message)
	for _, f := range v.Errors {
		e.Fields = append(e.Fields, Field{
			Location: "body." + string(
				kind,
			) + "." + f.Path,
			Message: f.Message,
			Code:    f.Code,
			NodeID:  f.NodeID,
			EdgeID:  f.EdgeID,
			Path:    f.Path,
		})
	}

	return e
}

// VersionConflict reports who has changed a document in the meantime.
type VersionConflict struct {
	CurrentVersion int
	ChangedBy      string
	ChangedAt      time.Time
}

// NewVersionConflict returns the error of a change that is not based on the newest version.
func NewVersionConflict(newest DocumentVersion) *Error {
	return &Error{
		Kind: Conflict, Code: CodeVersionConflict,
		Message: "the document was changed in the meantime: read the current version and apply the change to it",
		Version: &VersionConflict{CurrentVersion: newest.Version, ChangedBy: newest.CreatedBy, ChangedAt: newest.CreatedAt},
	}
}

// Codes of the errors about documents.
const (
	CodeVersionConflict  = "version_conflict"
	CodeValidationFailed = "validation_failed"
)
