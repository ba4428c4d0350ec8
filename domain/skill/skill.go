// Package skill contains skills as sessions see them, and the content that the skill registry
// publishes. It reads no packages and sends no requests to a registry.
package skill

import (
	"time"

	"everloop/domain"
)

// Source is where a skill was installed from (docs/skills.md#where-skills-come-from).
type Source string

// A builtin skill is part of the service, a partner skill was added by the operator, a registry
// skill was installed from the skill registry, and an uploaded skill was sent or written into
// one session's workspace.
const (
	Builtin  Source = "builtin"
	Partner  Source = "partner"
	Registry Source = "registry"
	Uploaded Source = "uploaded"
)

// Skill is one skill as lists show it.
type Skill struct {
	ID          string
	Name        string
	Org         string // of the registry; empty for others
	Description string
	Version     string // empty when the author sets none
	Digest      string // of the current package
	Source      Source
	InstalledAt *time.Time // nil for skills that are part of the service
	// ReleaseVersion is the version that the registry recommends; empty when it is unknown.
	ReleaseVersion  string
	UpdateAvailable bool // the registry recommends a later version
	// Changed reports that the package differs from the version that was installed or last
	// read.
	Changed bool
	// Problem is why the skill cannot be used; empty when it can.
	Problem string
	Dir     string // in the workspace; empty when it is not installed there
}

// File is one file of a skill's package.
type File struct {
	Path string
	Size int64 // bytes
}

// Detail is a skill with the content of its package.
type Detail struct {
	Skill
	Files       []File
	FrontMatter map[string]any
	RequiredEnv []string
	Permissions []string
	Readme      string // the text of SKILL.md below its front matter
}

// Offer is the description of a skill that the model sees before it loads it.
type Offer struct {
	Name        string
	Description string
	Primary     bool // the session was created for it
	OfSolution  bool // the session's solution lists it
}

// Loaded is a skill whose package is in the workspace.
type Loaded struct {
	Name        string
	Version     string
	Dir         string // relative to the workspace
	Digest      string
	Body        string
	Files       []File
	RequiredEnv []string
	// Changed reports that the session loaded another version of the package before, or that
	// the package was changed since it was installed.
	Changed bool
}

// Snapshot is the version of a session's primary skill that the session is pinned to
// (docs/skills.md#in-a-session).
type Snapshot struct {
	SkillID    string    `db:"skill_id"`
	Org        string    `db:"org"`
	Name       string    `db:"name"`
	Version    string    `db:"version"`
	Digest     string    `db:"digest"`
	Path       string    `db:"path"`
	FilesCount int       `db:"files_count"`
	TakenAt    time.Time `db:"taken_at"`
}

// Installed is a package that a user has installed from the registry.
type Installed struct {
	OwnerID     string    `db:"owner_id"`
	Org         string    `db:"org"`
	Name        string    `db:"name"`
	Version     string    `db:"version"`
	Digest      string    `db:"digest"`
	InstalledAt time.Time `db:"installed_at"`
}

// SessionSkill is a package in a session's workspace as it was last read.
type SessionSkill struct {
	SessionID   domain.SessionID `db:"session_id"`
	Name        string           `db:"name"`
	Source      Source           `db:"source"`
	Org         string           `db:"org"`
	Version     string           `db:"version"`
	Digest      string           `db:"digest"`
	InstalledAt time.Time        `db:"installed_at"`
}

// Stat is a session's usage of one skill.
type Stat struct {
	Name        string
	Invocations int
	Errors      int
	LastUsedAt  time.Time
	AvgDuration time.Duration
	Tokens      int // of its texts, estimated
}

// NewFile is one file of a skill to be uploaded.
type NewFile struct {
	Path    string
	Content []byte
}

// Upload is the result of an upload.
type Upload struct {
	Name        string
	Dir         string
	FileCount   int
	Overwritten bool
}

// Install requests a skill of the registry: without a version the released one, with a digest
// only exactly that package.
type Install struct {
	Org, Name, Version, Digest string
}

// InstallResult is the installed skill.
type InstallResult struct {
	Name, Version, Digest string
	Dir                   string
	FileCount             int
	ReplacedVersion       *string // nil when none was replaced
}

// Resync is the result of reading a session's skills again: names, and the reasons for unusable
// skills.
type Resync struct {
	Added, Updated, Removed []string
	Failed                  []Failure
}

// Failure is a package that cannot be used, and why.
type Failure struct {
	Name, Code, Message string
}

// Hit is one result of a search.
type Hit struct {
	ID, Org, Name, Description, Version string
	Score                               float64
	Downloads                           *int64
}

// Codes of errors about skills.
const (
	CodeNotFound       = "skill_not_found"
	CodeInvalid        = "invalid_skill"
	CodeNoRegistry     = "registry_not_configured"
	CodeDigestMismatch = "digest_mismatch"
)
