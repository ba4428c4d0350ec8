package production

import (
	"encoding/json"

	"everloop/domain"
)

// AssistedSolution is a production solution whose documents the agent of a session edits.
type AssistedSolution struct {
	ID    string
	Name  string
	Kinds []domain.DocumentKind // the documents that it edits
}

// DocumentEdit is a change of some elements of a document. Each element that is set is complete
// and replaces the one with its id; other elements are unchanged. Removing a node also removes
// its edges. An architecture has no edges.
type DocumentEdit struct {
	BaseVersion int // the version that the change is based on
	SetNodes    []json.RawMessage
	RemoveNodes []string
	SetEdges    []json.RawMessage
	RemoveEdges []string
	Message     string
}

// DocumentEdited is the version that an edit has created, and its validation.
type DocumentEdited struct {
	Version    domain.DocumentVersion
	Validation domain.Validation
}
