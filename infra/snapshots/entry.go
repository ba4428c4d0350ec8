//go:build linux

package snapshots

import (
	"io/fs"
	"time"

	"everloop/infra/snapshots/manifest"
)

// Type is the type of a snapshot's entry.
type Type string

// Types of entries.
const (
	File      Type = "file"
	Directory Type = "directory"
	Link      Type = "link"
)

// Info describes an entry of a snapshot.
type Info struct {
	Path    string // relative to the workspace; not always UTF-8
	Type    Type
	Mode    fs.FileMode // permission bits; of a link 0
	Size    int64       // bytes, of a file; else 0
	ModTime time.Time
	Target  string // of a link, unresolved
	// Identity is equal for files of equal content, in all snapshots; empty for other types.
	Identity string
}

func typeOf(k manifest.Kind) Type {
	switch k {
	case manifest.Directory:
		return Directory
	case manifest.Link:
		return Link
	default:
		return File
	}
}

func infoOf(e *manifest.Entry) Info {
	info := Info{
		Path: e.Path, Type: typeOf(e.Kind), Mode: fs.FileMode(e.Mode), Size: e.Size(),
		ModTime: time.Unix(0, e.Identity.MTime), Target: e.Target,
	}
	if e.Kind == manifest.File {
		info.Identity = e.Sum.String()
	}

	return info
}
