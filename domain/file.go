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
