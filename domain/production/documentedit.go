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

// DocumentEdit is a change of some elements of a document. Each element that is set is
// given whole and replaces the one with its id; other elements stay as they are. A node
// that is removed takes its edges along. An architecture has no edges.
type DocumentEdit struct {
	BaseVersion int // the version that the change was made from
	SetNodes    []json.RawMessage
	RemoveNodes []string
	SetEdges    []json.RawMessage
	RemoveEdges []string
	Message     string
}

// DocumentEdited is the version that an edit has made, and what its validation has found.
type DocumentEdited struct {
	Version    domain.DocumentVersion
	Validation domain.Validation
}
