// Package web holds the built front ends, which are part of the program. It must know
// nothing of who serves them.
package web

import (
	"embed"
	"io/fs"
)

// built is what `make build` made of web/desktop, below dist/app, and a page that is there
// without a build. Names that begin with a dot or an underscore would be left out without `all:`.
//
//go:embed all:desktop/dist
var built embed.FS

// Desktop gives the files of the desktop, and whether they were built: otherwise there is
// only an index.html, which says so.
func Desktop() (files fs.FS, ok bool) {
	if _, err := fs.Stat(built, "desktop/dist/app/index.html"); err == nil {
		return sub("desktop/dist/app"), true
	}

	return sub("desktop/dist/placeholder"), false
}

func sub(dir string) fs.FS {
	files, err := fs.Sub(built, dir)
	if err != nil {
		panic(err) // the path is a valid one
	}

	return files
}
