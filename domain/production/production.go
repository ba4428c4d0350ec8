// Package production contains production solutions and the versions of their documents, and the
// possible changes of status. It does not interpret the documents.
package production

import (
	"time"

	"everloop/domain"
)

// SolutionStatus is the state of a production solution.
type SolutionStatus string

// The states of a production solution.
const (
	SolutionDraft     SolutionStatus = "draft"
	SolutionPublished SolutionStatus = "published"
	SolutionArchived  SolutionStatus = "archived"
)

// Limits of a user's production solutions.
const (
	MaxSolutions        = 500
	MaxDocumentVersions = 1000      // of one document
	MaxDocumentBytes    = 4 << 20   // of one version, in its canonical form
	MaxUserDocuments    = 256 << 20 // bytes of all versions of a user
)

// DocumentState lists the versions of a document that are in effect.
type DocumentState struct {
	CurrentVersion   int  `json:"current_version" doc:"The newest version." example:"1"`
	PublishedVersion *int `json:"published_version,omitempty" doc:"The version that is published; left out: none."`
}

// Solution is a production solution: a DAG of agents, and an architecture. Deleted sessions are
// omitted.
type Solution struct {
	ID                    string            `json:"id" doc:"Its id." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	Name                  string            `json:"name" doc:"Its name." example:"Nightly review"`
	Description           string            `json:"description" doc:"The description."`
	Status                SolutionStatus    `json:"status" enum:"draft,published,archived" doc:"Its status."`
	SessionID             *domain.SessionID `json:"session_id,omitempty" doc:"The session that belongs to it; left out: none."`
	FlowSessionID         *domain.SessionID `json:"flow_session_id,omitempty" doc:"The session in which its DAG is worked on; left out: none."`
	ArchitectureSessionID *domain.SessionID `json:"architecture_session_id,omitempty" doc:"The session for its architecture; left out: none."`
	AIAssist              bool              `json:"ai_assist" doc:"Whether the agent of session_id edits its DAG and architecture."`
	FlowAIAssist          bool              `json:"flow_ai_assist" doc:"Whether the agent of flow_session_id edits its DAG."`
	ArchitectureAIAssist  bool              `json:"architecture_ai_assist" doc:"Whether the agent of architecture_session_id edits its architecture."`
	DAG                   DocumentState     `json:"dag" doc:"The versions of its DAG."`
	Architecture          DocumentState     `json:"architecture" doc:"The versions of its architecture."`
	LastRun               *LastRun          `json:"last_run,omitempty" doc:"The newest run of its DAG; left out: there is none."`
	OwnerID               string            `json:"owner_id" doc:"The owner." example:"01a1ff63-2da3-7551-9a1e-abad628e9c3d"`
	CreatedAt             time.Time         `json:"created_at" doc:"Creation time."`
	UpdatedAt             time.Time         `json:"updated_at" doc:"Time of the last change."`
}

// LastRun is the newest run of a production solution's DAG.
type LastRun struct {
	ID         string     `json:"id" doc:"The run." example:"01a1ff63-40a1-7c55-a62e-d84c269739b6"`
	Status     string     `json:"status" enum:"pending,running,waiting,completed,failed,cancelled" doc:"Its status."`
	FinishedAt *time.Time `json:"finished_at" nullable:"true" doc:"Time of its end; null: it is not over."`
}

// NewSolution is a production solution to store.
type NewSolution struct {
	OwnerID               string
	Name                  string
	Description           string
	SessionID             *domain.SessionID
	FlowSessionID         *domain.SessionID
	ArchitectureSessionID *domain.SessionID
	AIAssist              bool
	FlowAIAssist          bool
	ArchitectureAIAssist  bool
}

// SolutionChange contains the fields to set; nil fields are unchanged.
type SolutionChange struct {
	Name        *string
	Description *string
	Status      *SolutionStatus
	SessionID   *domain.SessionID

	FlowSessionID         *domain.SessionID
	ArchitectureSessionID *domain.SessionID
	AIAssist              *bool
	FlowAIAssist          *bool
	ArchitectureAIAssist  *bool
}

// StoredDocument is a version of a document with its content in canonical form, and
// the state of its document.
type StoredDocument struct {
	domain.DocumentVersion
	DocumentState
	Content []byte
}

// NewDocument is a version to store.
type NewDocument struct {
	Content   []byte // canonical
	Digest    string
	Message   string
	NodeCount int
	EdgeCount int
	CreatedBy string
}

// PublishedDocument is a published version. PreviousVersion is the version published before;
// nil: none.
type PublishedDocument struct {
	Version         int       `json:"version" doc:"The version that is published." example:"2"`
	PublishedAt     time.Time `json:"published_at" doc:"Time of the publication."`
	PublishedBy     string    `json:"published_by" doc:"The user who published it." example:"01a1ff63-2da3-7551-9a1e-abad628e9c3d"`
	Digest          string    `json:"digest" doc:"sha256: and the SHA-256 of the canonical form."`
	Message         string    `json:"message" doc:"The message of the publication."`
	PreviousVersion *int      `json:"previous_version" doc:"The version that was published before; null: none."`
}

// Codes of production solutions that several packages use.
const (
	CodeNotFound        = "prod_solution_not_found"
	CodeVersionNotFound = "version_not_found"
)

// NotFound is the error for a production solution that is missing or
// another user's.
func NotFound(id string) *domain.Error {
	return domain.Newf(domain.NotFound, CodeNotFound, "production solution %s does not exist", id)
}

// MayChange rejects a caller who can only read the solution: its runs use the rights and the
// environment of its owner, so no other user, including administrators, decides what they do.
func (s Solution) MayChange(caller domain.User) error {
	if s.OwnerID == caller.ID {
		return nil
	}

	return NotOwner()
}

// NotOwner is the error for a change or a run of another user's solution.
func NotOwner() *domain.Error {
	return domain.Newf(domain.Forbidden, "forbidden", "only the owner may change and run the production solution")
}

// VersionNotFound is the error for a version that is missing.
func VersionNotFound(version int) *domain.Error {
	return domain.Newf(domain.NotFound, CodeVersionNotFound, "version %d does not exist", version)
}

// moves are the changes of status that a user can request.
var moves = map[SolutionStatus][]SolutionStatus{
	SolutionDraft:     {SolutionPublished, SolutionArchived},
	SolutionPublished: {SolutionDraft, SolutionArchived},
	SolutionArchived:  {SolutionDraft},
}

// Move returns an error if a change of status is not possible. Becoming published also requires
// a published version of the DAG.
func (s Solution) Move(to SolutionStatus) error {
	if s.Status == to {
		return nil
	}

	for _, possible := range moves[s.Status] {
		if possible != to {
			continue
		}

		if to == SolutionPublished && s.DAG.PublishedVersion == nil {
			return domain.Newf(
				domain.Conflict,
				"invalid_status_move",
				"the solution cannot become published: publish a version of its DAG first",
			)
		}

		return nil
	}

	return domain.Newf(
		domain.Conflict,
		"invalid_status_move",
		"a solution that is %s cannot become %s; it can become %s",
		s.Status,
		to,
		listed(moves[s.Status]),
	)
}

func listed(states []SolutionStatus) string {
	text := ""

	for i, s := range states {
		if i > 0 {
			text += " or "
		}

		text += string(s)
	}

	return text
}
