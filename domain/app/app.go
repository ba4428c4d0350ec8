// Package app contains apps: directories of workspaces that are published as sites, and their
// bounds. It copies and serves no files.
package app

import (
	"io"
	"time"

	"everloop/domain"
)

// Status is the status of a published app.
type Status string

// building → live or failed; live → stopped.
const (
	Building Status = "building"
	Live     Status = "live"
	Failed   Status = "failed"
	Stopped  Status = "stopped"
)

// App is a directory of a workspace that is published as a site
// (docs/apps.md).
type App struct {
	ID          string
	OwnerID     string
	SessionID   domain.SessionID
	WorkingDir  string // relative to the workspace; "." is all of it
	Name        string
	Status      Status
	CopyID      string // of the copy that is served
	PublishedAt *time.Time
}

// Index is the page that a directory must have to be published.
const Index = "index.html"

// Copy is one stored copy of an app in the object store.
type Copy struct {
	Name    string // key in the object store
	AppID   string
	OwnerID string
	Bytes   int64 // its size, or an upper bound of the size it will have
}

// Bounds of an app.
const (
	MaxFiles = 5000
	MaxBytes = 200 << 20
)

// Served is the target of an app's URL: a file, or the directory whose URL lacks its trailing
// slash.
type Served struct {
	File      File
	Path      string // of the file, or of the directory
	Directory bool
}

// File is one file of a published app.
type File struct {
	Content io.ReadSeekCloser
	Size    int64
	ETag    string
}

// Codes of published apps.
const (
	CodeNotFound    = "app_not_found"
	CodeTooLarge    = "app_too_large"
	CodeNoIndexPage = "no_index_page"
	// CodeBudget rejects a copy that exceeds the owner's budget.
	CodeBudget = "app_budget"
	// CodeServiceWorker rejects a script that a browser would run as a service worker.
	CodeServiceWorker = "service_worker_refused"
)

// NotFound returns the error for an app that is missing, stopped or another user's; the cases
// are not distinguished.
func NotFound() *domain.Error {
	return domain.Newf(domain.NotFound, CodeNotFound, "there is no such app")
}
