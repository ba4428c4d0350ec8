package domain

import "time"

// FileInfo describes an entry of a workspace.
type FileInfo struct {
	Name    string
	Dir     bool
	Size    int64 // bytes; of a link, the length of its target
	ModTime time.Time
	ETag    string // strong validator, quotes included
}

// FileCondition is a precondition on the state of a file to change; the zero value matches any
// state.
type FileCondition struct {
	IfMatch string // ETags of an If-Match header; * matches any version
	Absent  bool   // the file must not exist
}

// FileOutcome is the result of one file of an upload.
type FileOutcome struct {
	Path   string     // relative to the workspace; of a failure, as the client named it
	Change FileChange // of a success
	Err    error      // why it was not taken; nil for a success
}

// FileLink is a link in a workspace; both paths are relative to it.
type FileLink struct {
	Path   string `json:"path" doc:"Relative to the workspace." example:".share/team/today.md"`
	Target string `json:"target" doc:"The target of the link." example:"notes/today.md"`
}
