package domain

import "time"

// SkillSource says where a skill comes from (shapes.md section 5).
type SkillSource string

// A builtin skill belongs to the service, a partner's was put beside it by its
// operator, a registry's was installed from the skill registry, an uploaded one
// was sent or written into one session's workspace.
const (
	SkillBuiltin  SkillSource = "builtin"
	SkillPartner  SkillSource = "partner"
	SkillRegistry SkillSource = "registry"
	SkillUploaded SkillSource = "uploaded"
)

// Skill is one skill as lists show it.
type Skill struct {
	ID          string
	Name        string
	Org         string // of the registry; empty for others
	Description string
	Version     string // empty when the author gives none
	Digest      string // of the package as it is now
	Source      SkillSource
	InstalledAt *time.Time // nil for what came with the service
	// ReleaseVersion is the version that the registry recommends; empty when it is
	// not known.
	ReleaseVersion  string
	UpdateAvailable bool // the registry recommends a later version
	// Changed says that the package is not the one that was installed or last read
	// again.
	Changed bool
	// Problem says why the skill cannot be used; empty when it can.
	Problem string
	Dir     string // in the workspace; empty when it is not there
}

// SkillFile is one file of a skill's package.
type SkillFile struct {
	Path string
	Size int64 // bytes
}

// SkillDetail is a skill with what its package holds.
type SkillDetail struct {
	Skill
	Files       []SkillFile
	FrontMatter map[string]any
	RequiredEnv []string
	Permissions []string
	Readme      string // the text of SKILL.md below its front matter
}

// SkillOffer is what the model sees of a skill before it loads it.
type SkillOffer struct {
	Name        string
	Description string
	Primary     bool // the session was made for it
	OfSolution  bool // the solution of the session names it
}

// LoadedSkill is a skill whose package lies in the workspace.
type LoadedSkill struct {
	Name        string
	Version     string
	Dir         string // relative to the workspace
	Digest      string
	Body        string
	Files       []SkillFile
	RequiredEnv []string
	// Changed says that the session loaded another version of the package before,
	// or that the package was changed since it was installed.
	Changed bool
}

// SkillSnapshot is the version of a session's primary skill that the session
// keeps to (shapes.md section 2).
type SkillSnapshot struct {
	SkillID    string    `db:"skill_id"`
	Org        string    `db:"org"`
	Name       string    `db:"name"`
	Version    string    `db:"version"`
	Digest     string    `db:"digest"`
	Path       string    `db:"path"`
	FilesCount int       `db:"files_count"`
	TakenAt    time.Time `db:"taken_at"`
}

// InstalledSkill is a package that a user has installed from the registry.
type InstalledSkill struct {
	OwnerID     string    `db:"owner_id"`
	Org         string    `db:"org"`
	Name        string    `db:"name"`
	Version     string    `db:"version"`
	Digest      string    `db:"digest"`
	InstalledAt time.Time `db:"installed_at"`
}

// SessionSkill is a package in a session's workspace as it was last read.
type SessionSkill struct {
	SessionID   string      `db:"session_id"`
	Name        string      `db:"name"`
	Source      SkillSource `db:"source"`
	Org         string      `db:"org"`
	Version     string      `db:"version"`
	Digest      string      `db:"digest"`
	InstalledAt time.Time   `db:"installed_at"`
}

// SkillStat is how a session has used one skill.
type SkillStat struct {
	Name        string
	Invocations int
	Errors      int
	LastUsedAt  time.Time
	AvgDuration time.Duration
	Tokens      int // that its texts took, estimated
}

// NewSkillFile is one file of a skill to be uploaded.
type NewSkillFile struct {
	Path    string
	Content []byte
}

// SkillUpload is the result of an upload.
type SkillUpload struct {
	Name        string
	Dir         string
	FileCount   int
	Overwritten bool
}

// SkillInstall asks for a skill of the registry: without a version the released
// one, with a digest only that very package.
type SkillInstall struct {
	Org, Name, Version, Digest string
}

// SkillInstalled is what was installed.
type SkillInstalled struct {
	Name, Version, Digest string
	Dir                   string
	FileCount             int
	ReplacedVersion       *string // nil when none was replaced
}

// SkillResync is what reading a session's skills again has found: names, and
// for what cannot be used the reason.
type SkillResync struct {
	Added, Updated, Removed []string
	Failed                  []SkillFailure
}

// SkillFailure is a package that cannot be used.
type SkillFailure struct {
	Name, Code, Message string
}

// SkillHit is one result of a search.
type SkillHit struct {
	ID, Org, Name, Description, Version string
	Score                               float64
	Downloads                           *int64
}

// Codes of errors about skills.
const (
	CodeSkillNotFound  = "skill_not_found"
	CodeInvalidSkill   = "invalid_skill"
	CodeNoRegistry     = "registry_not_configured"
	CodeDigestMismatch = "digest_mismatch"
)
