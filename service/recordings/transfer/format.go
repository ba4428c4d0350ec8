// Package transfer carries sessions out of an installation and into another one:
// as a ZIP archive with a manifest.
// It knows the format and what makes an archive trustworthy. It must not know
// transports; records, objects and files are reached through ports.
package transfer

import (
	"encoding/json"
	"io/fs"
	"path"
	"strings"
	"time"

	"everloop/domain"
	"everloop/domain/transfer"
	"everloop/internal/safezip"
)

// FormatVersion is the version of the archives that are written here, and the
// only one that is read.
const FormatVersion = 1

// Members of an archive. Names below the last three are paths, hashes of contents
// of earlier files, and hashes of pictures.
const (
	manifestFile    = "manifest.json"
	sessionFile     = "session.json"
	turnsFile       = "turns.jsonl"
	eventsFile      = "events.jsonl"
	checkpointsFile = "checkpoints.json"
	historyFile     = "history.json"
	memoriesFile    = "memories.json"

	workspaceDir   = "workspace/"
	blobsDir       = "blobs/"
	attachmentsDir = "attachments/"
)

// limits of an archive that is imported. What is exported keeps to the ratio by
// storing what would compress better.
var limits = safezip.Limits{Archive: 512 << 20, Files: 200_000, Expanded: 4 << 30, File: 2 << 30, Ratio: 200}

// manifest describes an archive. It is written last, and read first.
type manifest struct {
	FormatVersion  int       `json:"format_version"`
	ServiceVersion string    `json:"service_version"`
	ExportedAt     time.Time `json:"exported_at"`
	Session        summary   `json:"session"`
	Counts         Counts    `json:"counts"`
	Members        []member  `json:"members"`
	Links          []link    `json:"links"`   // of the workspace
	Skipped        []skipped `json:"skipped"` // of the workspace, with the reason
	Redactions     []string  `json:"redactions"`
}

// summary names the session in the manifest.
type summary struct {
	ID        domain.SessionID `json:"id"`
	Intent    string           `json:"intent"`
	Model     *string          `json:"model"`
	CreatedAt time.Time        `json:"created_at"`
}

// Counts say how much an archive holds.
type Counts struct {
	Turns       int   `json:"turns"`
	Files       int   `json:"files"`
	Bytes       int64 `json:"bytes"`
	Checkpoints int   `json:"checkpoints"`
	Branches    int   `json:"branches"`
	Events      int   `json:"events"`
}

// member is one file of the archive. Mode is given for files of the workspace.
type member struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Mode   uint32 `json:"mode,omitempty"`
}

type link struct {
	Path   string `json:"path"`
	Target string `json:"target"`
}

type skipped struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// redactions name what no archive holds.
var redactions = []string{"values of the environment", "API keys and tokens", "share links", "queued messages", "background tasks"}

// sessionBody is session.json.
type sessionBody struct {
	ID              domain.SessionID     `json:"id"`
	Intent          string               `json:"intent"`
	Status          domain.SessionStatus `json:"status"`
	SolutionID      *string              `json:"solution_id"`
	BizRoleID       *string              `json:"biz_role_id"`
	TemplateID      *string              `json:"template_id"`
	PrimarySkillID  *string              `json:"primary_skill_id"`
	Model           *string              `json:"model"`
	SoftwareFactory *int64               `json:"software_factory_id"`
	Mode            domain.Mode          `json:"mode"`
	MemoryEnabled   bool                 `json:"memory_enabled"`
	Persistent      bool                 `json:"is_persistent"`
	EnvNames        []string             `json:"env_names"` // their values stay behind
	DisableTools    []string             `json:"disable_tools"`
	Setup           domain.SessionSetup  `json:"session_setup"`
	Tasks           []domain.SessionTask `json:"tasks"`
	Extra           json.RawMessage      `json:"extra"`
	CreatedAt       time.Time            `json:"created_at"`
	UpdatedAt       time.Time            `json:"updated_at"`
}

// checkpointsBody is checkpoints.json: the points, and what each snapshot holds.
type checkpointsBody struct {
	Checkpoints []transfer.CheckpointRecord `json:"checkpoints"`
	Snapshots   []snapshot                  `json:"snapshots"`
}

// snapshot lists the files of a state of the workspace; contents are members
// below blobs/, by their hash.
type snapshot struct {
	ID    string         `json:"id"`
	Files []snapshotFile `json:"files"`
}

type snapshotFile struct {
	Path   string `json:"path"`
	Type   string `json:"type"` // file, directory or link
	Mode   uint32 `json:"mode,omitempty"`
	Size   int64  `json:"size,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Target string `json:"target,omitempty"`
}

const (
	typeFile      = "file"
	typeDirectory = "directory"
	typeLink      = "link"
)

func typeOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return typeDirectory
	case mode&fs.ModeSymlink != 0:
		return typeLink
	}

	return typeFile
}

// linkProblem returns why a link of a workspace is not carried; "" when it is. Its
// target must lie inside by its words alone: after the first name there is no way
// up, so that no other link on the way can make it lead elsewhere.
func linkProblem(at, target string) string {
	if problem := safezip.CheckName(at); problem != "" {
		return "link " + problem
	}

	if target == "" || len(target) > 4096 || strings.ContainsRune(target, 0) {
		return "has no usable target"
	}

	if path.IsAbs(target) || strings.Contains(target, "\\") {
		return "leads to an absolute path"
	}

	up, down := 0, false

	for element := range strings.SplitSeq(target, "/") {
		switch element {
		case "", ".":
		case "..":
			if down {
				return "leads up again behind a name"
			}

			up++
		default:
			down = true
		}
	}

	if up > strings.Count(at, "/") {
		return "leaves the workspace"
	}

	return ""
}
