// Package board contains production workspaces, their issues, and the runs of agents on them.
// It does not depend on a store and starts no runs.
package board

import (
	"strings"
	"time"
	"unicode"

	"everloop/domain"
)

// WorkspaceRole is the role of a member in a production workspace.
type WorkspaceRole string

// The roles; each includes the rights of the following ones.
const (
	WorkspaceOwner  WorkspaceRole = "owner"  // everything
	WorkspaceAdmin  WorkspaceRole = "admin"  // members below owners, squads
	WorkspaceMember WorkspaceRole = "member" // issues and comments
	WorkspaceViewer WorkspaceRole = "viewer" // reads
)

var workspaceRanks = map[WorkspaceRole]int{WorkspaceViewer: 1, WorkspaceMember: 2, WorkspaceAdmin: 3, WorkspaceOwner: 4}

// Includes reports whether the role has the rights of another one.
func (r WorkspaceRole) Includes(other WorkspaceRole) bool {
	return workspaceRanks[r] >= workspaceRanks[other]
}

// Bounds of production workspaces.
const (
	MaxWorkspaces       = 100 // of a user, as their owner
	MaxWorkspaceMembers = 500
	MaxSquads           = 100 // of a workspace
	MaxSquadMembers     = 50
	MaxAssistants       = 50     // assistant sessions of a user in a workspace
	MaxIssues           = 10_000 // of a workspace
	MaxIssueComments    = 2_000  // of an issue
	MaxIssueActivity    = 2_000  // of an issue; the oldest are removed
	MaxIssueMetadata    = 16_384 // bytes
	MaxIssueDepth       = 10     // of an issue below others
)

// Workspace is a board of issues with its members.
type Workspace struct {
	ID          string            `json:"id" db:"id" doc:"The production workspace." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	Name        string            `json:"name" db:"name" doc:"Its name." example:"Website"`
	Slug        string            `json:"slug" db:"slug" doc:"A name for URLs, which no other one has." example:"website-7aaafb7"`
	Description string            `json:"description" db:"description" doc:"The description."`
	IssuePrefix string            `json:"issue_prefix" db:"issue_prefix" doc:"What the identifiers of its issues begin with." example:"WEB"`
	Settings    WorkspaceSettings `json:"settings" db:"settings" doc:"How its issues are worked on."`
	Role        WorkspaceRole     `json:"role" db:"role" enum:"owner,admin,member,viewer" doc:"The role of the caller."`
	MemberCount int               `json:"member_count" db:"member_count" doc:"How many members it has." example:"1"`
	AgentCount  int               `json:"agent_count" db:"agent_count" doc:"How many agent instances the caller sees in it." example:"0"`
	CreatedAt   time.Time         `json:"created_at" db:"created_at" doc:"Creation time."`
	UpdatedAt   time.Time         `json:"updated_at" db:"updated_at" doc:"Time of the last change."`
}

// WorkspaceSettings configure how agents work on the issues of a workspace.
type WorkspaceSettings struct {
	MaxAttempts  int  `json:"max_attempts" minimum:"1" maximum:"5" default:"2" doc:"How often a run that fails is attempted." example:"2"`
	RunOnComment bool `json:"run_on_comment" default:"true" doc:"Whether a member's comment on an issue of an agent begins a run."`
}

// DefaultWorkspaceSettings apply to a workspace without settings.
var DefaultWorkspaceSettings = WorkspaceSettings{MaxAttempts: 2, RunOnComment: true}

// NewWorkspace is a production workspace before it is stored.
type NewWorkspace struct {
	Name        string
	Description string
	IssuePrefix string // empty: derived from the name
	Settings    WorkspaceSettings
}

// MemberState is the state of a user's membership in a production workspace.
type MemberState string

// An invited user becomes a member by accepting.
const (
	MemberJoined  MemberState = "member"
	MemberInvited MemberState = "invited"
)

// Invitation invites a user to a production workspace.
type Invitation struct {
	ID            string        `json:"id" db:"id" doc:"The invitation." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb9"`
	WorkspaceID   string        `json:"workspace_id" db:"workspace_id" doc:"The production workspace." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	WorkspaceName string        `json:"workspace_name" db:"workspace_name" doc:"The name of the production workspace." example:"Website"`
	Role          WorkspaceRole `json:"role" db:"role" enum:"owner,admin,member,viewer" doc:"The role that the user gets."`
	InvitedBy     string        `json:"invited_by" db:"invited_by" doc:"The name of the member who invites." example:"Ann"`
	CreatedAt     time.Time     `json:"created_at" db:"created_at" doc:"Creation time."`
}

// WorkspaceMembership is a user in a production workspace, or a user who is invited to it. For
// an invited user it contains only the inviter's input.
type WorkspaceMembership struct {
	ID        string        `json:"id" db:"id" doc:"The membership, or the invitation." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	State     MemberState   `json:"state" db:"state" enum:"member,invited" doc:"invited: the user has not accepted the invitation."`
	UserID    string        `json:"user_id" db:"user_id" doc:"The user; while invited, the id or user name that was given." example:"01a1fd9a-e0d1-7c52-b4f3-7a1d0c9e8b21"`
	Name      string        `json:"name" db:"name" doc:"The name, else the user name; while invited, the id or user name that was given." example:"Ann"`
	Email     string        `json:"email" db:"email" doc:"The address; empty: none, or not a member yet."`
	Role      WorkspaceRole `json:"role" db:"role" enum:"owner,admin,member,viewer" doc:"The role."`
	AvatarURL *string       `json:"avatar_url" db:"avatar_url" doc:"The picture; null: none."`
	CreatedAt time.Time     `json:"created_at" db:"created_at" doc:"Time at which they joined."`
}

// Squad is a group of agents and members. Its leader works on the issues that are
// assigned to it.
type Squad struct {
	ID           string        `json:"id" db:"id" doc:"The squad." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	Name         string        `json:"name" db:"name" doc:"Its name." example:"Reviewers"`
	LeaderID     string        `json:"leader_id" db:"leader_id" doc:"The agent instance that works on its issues."`
	Instructions string        `json:"instructions" db:"instructions" doc:"What its leader gets as instructions with each issue."`
	Members      []SquadMember `json:"members" db:"members" nullable:"false" doc:"Who is in it."`
	CreatedAt    time.Time     `json:"created_at" db:"created_at" doc:"Creation time."`
}

// SquadChange is a change of a squad; nil fields are unchanged.
type SquadChange struct {
	Name         *string
	LeaderID     *string
	Instructions *string
	Members      []SquadMember // replace the current members
}

// SquadMember is an agent instance or a member of the workspace in a squad.
type SquadMember struct {
	MemberType ActorType `json:"member_type" enum:"member,agent" doc:"What it is." example:"agent"`
	MemberID   string    `json:"member_id" minLength:"1" maxLength:"128" doc:"The user or the agent instance."`
	Role       string    `json:"role" required:"false" maxLength:"64" doc:"What it does in the squad." example:"tester"`
}

// ActorType is the kind of an actor in a workspace.
type ActorType string

// The kinds of actors. A squad can only be an assignee.
const (
	ActorMember ActorType = "member"
	ActorAgent  ActorType = "agent"
	ActorSystem ActorType = "system"
	ActorSquad  ActorType = "squad"
)

// Codes of production workspaces that several packages use.
const (
	CodeWorkspaceNotFound = "workspace_not_found"
	CodeIssueNotFound     = "issue_not_found"
)

// InvitationNotFound returns the error for an invitation that does not exist, or is for another
// user.
func InvitationNotFound(id string) *domain.Error {
	return domain.Newf(domain.NotFound, "invitation_not_found", "invitation %s does not exist", id)
}

// WorkspaceNotFound returns the error for a workspace that does not exist, or that the caller
// is not a member of.
func WorkspaceNotFound(id string) *domain.Error {
	return domain.Newf(domain.NotFound, CodeWorkspaceNotFound, "workspace %s does not exist", id)
}

// IssueNotFound returns the error for an issue that the workspace does not have.
func IssueNotFound(id string) *domain.Error {
	return domain.Newf(domain.NotFound, CodeIssueNotFound, "issue %s does not exist", id)
}

// NeedsRole rejects a member with an insufficient role.
func NeedsRole(has, needed WorkspaceRole) error {
	if has.Includes(needed) {
		return nil
	}

	return domain.Newf(domain.Forbidden, "workspace_role_required", "this needs the role %s in the workspace", needed)
}

// Slug returns a URL name derived from a name. The id makes it unique.
func Slug(name, id string) string {
	var out strings.Builder

	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			out.WriteRune(r)
		case out.Len() > 0 && !strings.HasSuffix(out.String(), "-"):
			out.WriteByte('-')
		}

		if out.Len() >= 40 {
			break
		}
	}

	if out.Len() > 0 && !strings.HasSuffix(out.String(), "-") {
		out.WriteByte('-')
	}

	return out.String() + id[max(0, len(id)-7):]
}

// IssuePrefixOf returns the prefix of issue identifiers, derived from the name of a workspace.
func IssuePrefixOf(name string) string {
	var out strings.Builder
	for _, r := range strings.ToUpper(name) {
		if r >= 'A' && r <= 'Z' || out.Len() > 0 && unicode.IsDigit(r) && r < unicode.MaxASCII {
			out.WriteRune(r)
		}

		if out.Len() == 3 {
			return out.String()
		}
	}

	if out.Len() == 0 {
		return "ISS"
	}

	return out.String()
}
