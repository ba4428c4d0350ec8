package domain

import (
	"io"
	"time"
)

// AppStatus says how a published app stands.
type AppStatus string

// building → live or failed; live → stopped.
const (
	AppBuilding AppStatus = "building"
	AppLive     AppStatus = "live"
	AppFailed   AppStatus = "failed"
	AppStopped  AppStatus = "stopped"
)

// App is a directory of a workspace that is published as a site (shapes.md
// section 8, "Publish app").
type App struct {
	ID          string
	OwnerID     string
	SessionID   string
	WorkingDir  string // relative to the workspace; "." is all of it
	Name        string
	Status      AppStatus
	CopyID      string // of the copy that is served
	PublishedAt *time.Time
}

// AppIndex is the page that a directory must have to be published.
const AppIndex = "index.html"

// AppCopy is what the object store keeps of an app at one time.
type AppCopy struct {
	Name    string // under which the object store has it
	AppID   string
	OwnerID string
	Bytes   int64 // that it takes, or needs at most
}

// Bounds of an app.
const (
	MaxAppFiles = 5000
	MaxAppBytes = 200 << 20
)

// ServedApp is what an address of an app leads to: a file, or the directory whose
// address lacks its slash.
type ServedApp struct {
	File      AppFile
	Path      string // of the file, or of the directory
	Directory bool
}

// AppFile is one file of a published app.
type AppFile struct {
	Content io.ReadSeekCloser
	Size    int64
	ETag    string
}

// Codes of published apps.
const (
	CodeAppNotFound = "app_not_found"
	CodeAppTooLarge = "app_too_large"
	CodeNoIndexPage = "no_index_page"
	// CodeAppBudget refuses a copy for which the owner's budget has no room.
	CodeAppBudget = "app_budget"
	// CodeServiceWorker refuses a script that a browser would run as a service worker.
	CodeServiceWorker = "service_worker_refused"
)

// AppNotFound is the answer for an app that is missing, stopped or another
// user's: the three have one answer.
func AppNotFound() *Error { return Newf(NotFound, CodeAppNotFound, "there is no such app") }
