// Package prodagent contains production agents, their instances and the runtimes on which these
// work. It creates no sessions.
package prodagent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"everloop/domain"
)

// Visibility determines who sees a production agent or an agent instance in addition to its
// owner. Any value except workspace is treated as private.
type Visibility string

// The visibilities.
const (
	VisibilityPrivate   Visibility = "private"   // its owner only
	VisibilityWorkspace Visibility = "workspace" // the members of the owner's workspaces; the default
)

// Limits of production agents and agent instances.
const (
	MaxAgents      = 500 // of a user
	MaxInstances   = 500 // of a user, including archived ones
	MaxShares      = 100 // workspaces of an instance
	MaxText        = 200_000
	MaxSkills      = 200
	MaxPreviewURLs = 200
	MaxSkillsData  = 100_000 // bytes of the JSON text
	DefaultTasks   = 6       // max concurrent issues of an instance
	LookedSessions = 50      // newest sessions of an instance that its status is computed from
)

// Spec is the configuration of an agent's sessions.
type Spec struct {
	SolutionID   string              `json:"solution_id"`
	BizRoleID    string              `json:"biz_role_id"`
	Template     string              `json:"agent_template"`
	Instructions string              `json:"instructions"`
	Mode         *domain.Mode        `json:"initial_mode"`
	Skills       []string            `json:"skills"`
	SkillsData   map[string]any      `json:"skills_data"`
	InitScript   string              `json:"init_script"`
	LayoutType   string              `json:"layout_type"`
	PreviewURLs  []domain.PreviewURL `json:"preview_urls"`
}

// SystemText returns the agent's addition to the system prompt: its role, its task, and the
// data of its skills.
func (s Spec) SystemText() string {
	text := domain.JoinParagraphs(strings.TrimSpace(s.Template), strings.TrimSpace(s.Instructions))
	if len(s.SkillsData) == 0 {
		return text
	}

	data, _ := json.Marshal(s.SkillsData) // cannot fail: the data was decoded from JSON

	return domain.JoinParagraphs(text, "Data for the skills, as JSON:\n"+string(data))
}

// ScriptDigest returns the SHA-256 of the init script; empty without one.
func (s Spec) ScriptDigest() string {
	if s.InitScript == "" {
		return ""
	}

	sum := sha256.Sum256([]byte(s.InitScript))

	return hex.EncodeToString(sum[:])
}

// Status reports whether sessions can be created with a production agent.
type Status string

// A production agent is unavailable while its solution does not exist.
const (
	Active      Status = "active"
	Unavailable Status = "unavailable"
)

// Summary is a production agent in a list, without its texts.
type Summary struct {
	RecordID        string       `json:"record_id" doc:"The record." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	AgentID         string       `json:"agent_id" doc:"Its name for programs; unique among the agents of its owner." example:"reviewer"`
	Name            string       `json:"name" doc:"Its name." example:"Reviewer"`
	Icon            string       `json:"icon" doc:"Its icon; empty: none." example:"magnifier"`
	SolutionID      string       `json:"solution_id" doc:"The solution of its sessions." example:"software_factory"`
	BizRoleID       string       `json:"biz_role_id" doc:"The role of its sessions." example:"reviewer"`
	InitialMode     *domain.Mode `json:"initial_mode" nullable:"true" enum:"executing,planning" doc:"The mode of its sessions; null: executing."`
	Skills          []string     `json:"skills" nullable:"false" doc:"Skills that its sessions are offered first."`
	LayoutType      string       `json:"layout_type" doc:"The layout that front ends use for its sessions." example:"default"`
	RuntimeProvider string       `json:"runtime_provider" doc:"The provider of the runtimes of its instances; empty: the built-in one." example:"builtin"`
	Visibility      Visibility   `json:"visibility" doc:"Who sees it beside its owner: workspace, the members of the workspaces; any other word, no other user." example:"workspace"`
	Version         int          `json:"version" doc:"Grows with each change." example:"1"`
	Status          Status       `json:"status" enum:"active,unavailable" doc:"unavailable: its solution does not exist."`
	OwnerID         string       `json:"owner_id" doc:"The owner." example:"01a1ff63-2da3-7551-9a1e-abad628e9c3d"`
	CreatedAt       time.Time    `json:"created_at" doc:"Creation time."`
	UpdatedAt       time.Time    `json:"updated_at" doc:"Time of the last change."`
}

// Agent is a production agent: a template of sessions and of agent instances.
type Agent struct {
	Summary
	AgentTemplate string              `json:"agent_template" doc:"Who the agent is; added to the system prompt."`
	Instructions  string              `json:"instructions" doc:"What the agent is to do; added to the system prompt."`
	SkillsData    map[string]any      `json:"skills_data" nullable:"false" doc:"Data for the skills; added to the system prompt as JSON."`
	InitScript    string              `json:"init_script" doc:"Commands that each session runs once, before its first chat."`
	PreviewURLs   []domain.PreviewURL `json:"preview_urls" nullable:"false" doc:"Pages that front ends show beside its sessions."`
}

// Spec returns the configuration of the agent's sessions.
func (a Agent) Spec() Spec {
	return Spec{
		SolutionID: a.SolutionID, BizRoleID: a.BizRoleID, Template: a.AgentTemplate, Instructions: a.Instructions, Mode: a.InitialMode,
		Skills: a.Skills, SkillsData: a.SkillsData, InitScript: a.InitScript, LayoutType: a.LayoutType, PreviewURLs: a.PreviewURLs,
	}
}

// InstanceStatus is the current activity of an agent instance.
type InstanceStatus string

// The statuses of an agent instance, computed from its runtime and its sessions; the first
// matching one applies.
const (
	InstanceOffline InstanceStatus = "offline" // its runtime is offline
	InstanceWorking InstanceStatus = "working" // a session runs
	InstanceBlocked InstanceStatus = "blocked" // a session waits for an answer
	InstanceError   InstanceStatus = "error"   // the session that changed last has failed
	InstanceIdle    InstanceStatus = "idle"
)

// Instance is an agent at work: it has a runtime, and issues can be assigned to it. It contains
// a copy of its production agent as of its creation.
type Instance struct {
	ID                 string         `json:"id" doc:"The instance." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb8"`
	RecordID           *string        `json:"record_id" nullable:"true" doc:"The production agent that it was made of; null: none, or deleted."`
	WorkspaceID        *string        `json:"workspace_id" nullable:"true" doc:"Always null: it works in any workspace of its owner."`
	Name               string         `json:"name" doc:"Its name." example:"Reviewer"`
	Icon               string         `json:"icon" doc:"Its icon; empty: none." example:"magnifier"`
	Description        string         `json:"description" doc:"The description."`
	Instructions       string         `json:"instructions" doc:"What the agent is to do; added to the system prompt."`
	RuntimeID          string         `json:"runtime_id" doc:"Its runtime." example:"builtin"`
	RuntimeBound       bool           `json:"runtime_bound" doc:"Whether it has a runtime."`
	Status             InstanceStatus `json:"status" enum:"idle,working,blocked,error,offline" doc:"What it is doing."`
	Visibility         Visibility     `json:"visibility" doc:"Who sees it beside its owner: workspace, the members of the workspaces in shared_with; any other word, no other user." example:"workspace"`
	SharedWith         []Share        `json:"shared_with" nullable:"false" doc:"The production workspaces whose members may assign issues to it; for other users than its owner always empty."`
	Model              *string        `json:"model" nullable:"true" doc:"The model of its sessions; null: the service's default."`
	MaxConcurrentTasks int            `json:"max_concurrent_tasks" doc:"Issues that it works on at once." example:"6"`
	Skills             []string       `json:"skills" nullable:"false" doc:"Skills that its sessions are offered first."`
	HasEnv             bool           `json:"has_env" doc:"Whether its sessions get an environment of its own."`
	EnvKeyCount        int            `json:"env_key_count" doc:"Variables of that environment; their values are never shown." example:"0"`
	OwnerID            string         `json:"owner_id" doc:"The owner." example:"01a1ff63-2da3-7551-9a1e-abad628e9c3d"`
	CreatedAt          time.Time      `json:"created_at" doc:"Creation time."`
	UpdatedAt          time.Time      `json:"updated_at" doc:"Time of the last change."`
	ArchivedAt         *time.Time     `json:"archived_at" nullable:"true" doc:"Time at which it was archived; null: it is not."`

	Spec Spec              `json:"-"` // with its own instructions
	Env  domain.SessionEnv `json:"-"`
}

// SeenBy returns the instance as a user sees it: only its owner sees with whom it is shared.
func (a Instance) SeenBy(userID string) Instance {
	if a.OwnerID != userID {
		a.SharedWith = []Share{}
	}

	return a
}

// Share allows the members of a production workspace to assign issues to an agent instance.
type Share struct {
	WorkspaceID string `json:"workspace_id" minLength:"1" maxLength:"128" doc:"The production workspace." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	Secrets     bool   `json:"secrets" required:"false" doc:"Whether its runs there get the environment of the instance and of its owner, although other members steer them. Values are masked in results." example:"false"`
}

// InstanceChange contains the fields to set; nil fields are unchanged. A model that points to
// an empty text is removed.
type InstanceChange struct {
	Name               *string
	Description        *string
	Instructions       *string
	Visibility         *Visibility
	Model              *string
	MaxConcurrentTasks *int
	RuntimeID          *string
	Env                domain.SessionEnv // nil: unchanged
	SharedWith         []Share           // nil: unchanged
	Archived           *bool
}

// RuntimeMode is the kind of a runtime's workers.
type RuntimeMode string

// The modes of runtimes. The built-in runtime consists of the workers without a configured
// name.
const (
	RuntimeBuiltin RuntimeMode = "builtin"
	RuntimeLocal   RuntimeMode = "local"
	RuntimeCloud   RuntimeMode = "cloud"
)

// BuiltinRuntime is the id, the provider and the name of the built-in runtime.
const BuiltinRuntime = "builtin"

// RuntimeStatus reports whether the workers of a runtime take work.
type RuntimeStatus string

// A runtime is online while one of its workers takes work, and draining while the last workers
// finish the work they have started.
const (
	RuntimeOnline   RuntimeStatus = "online"
	RuntimeOffline  RuntimeStatus = "offline"
	RuntimeDraining RuntimeStatus = "draining"
)

// RuntimeCapacity is the number of concurrent tasks of a runtime's workers.
type RuntimeCapacity struct {
	Slots int `json:"slots" doc:"Activities (model calls and tools) that its workers take at once." example:"1000"`
	Used  int `json:"used" doc:"How many of them are in use." example:"3"`
}

// Runtime is where agent instances work: all workers that announce the same provider and name.
// A replaced worker leaves no state behind.
type Runtime struct {
	ID         string          `json:"id" doc:"The runtime." example:"builtin"`
	Name       string          `json:"name" doc:"Its name." example:"builtin"`
	Provider   string          `json:"provider" doc:"Its provider." example:"builtin"`
	Mode       RuntimeMode     `json:"mode" enum:"local,cloud,builtin" doc:"Where it works."`
	Status     RuntimeStatus   `json:"status" enum:"online,offline,draining" doc:"Whether its workers take work."`
	Version    string          `json:"version" doc:"The version of the worker that reported last; empty: none did." example:"2611.0.0"`
	Capacity   RuntimeCapacity `json:"capacity" doc:"Sums of its workers that take work."`
	DeviceInfo RuntimeDevice   `json:"device_info" doc:"The machine of the worker that reported last."`
	Metadata   RuntimeMetadata `json:"metadata" doc:"More about its workers."`
	LastSeenAt *time.Time      `json:"last_seen_at" nullable:"true" doc:"Time of the last report; null: none."`
	CreatedAt  time.Time       `json:"created_at" doc:"Time of the first report."`
}

// RuntimeDevice is the machine of a worker.
type RuntimeDevice struct {
	OS   string `json:"os" doc:"The operating system; empty: not known." example:"linux"`
	Arch string `json:"arch" doc:"The architecture." example:"amd64"`
	CPUs int    `json:"cpus" doc:"The processors that the worker may use." example:"8"`
}

// RuntimeMetadata counts the workers of a runtime.
type RuntimeMetadata struct {
	Workers int `json:"workers" doc:"Workers that take work." example:"1"`
}

// WorkerReport is the report of a worker while it takes work.
type WorkerReport struct {
	ID       string
	Provider string // empty: of the built-in runtime
	Name     string
	Mode     RuntimeMode
	Version  string
	Slots    int
	Used     int
	Device   RuntimeDevice
}

// Start specifies the session to create and its agent.
type Start struct {
	SessionID domain.SessionID    // chosen by the caller, so that a start can be repeated
	Class     domain.SessionClass // empty: chat
	ParentRun string              // what the session is made for (durable.Attributes); empty: a user

	// Exactly one of them identifies the agent.
	RecordID   string // a production agent
	AgentID    string // a production agent by its agent_id
	InstanceID string // an agent instance

	ScriptDigest      string  // of the init script of another user's agent, which the caller has read
	Intent            string  // empty: taken from the first message
	Model             *string // nil: the instance's model, else the service's default
	Budget            *domain.Budget
	SkipConfirmations bool
	QuestionPolicy    *domain.QuestionPolicy
	WorkspaceID       *string
}

// NotFound is the error for a production agent that is missing or that the caller cannot see.
func NotFound(id string) *domain.Error {
	return domain.Newf(domain.NotFound, "prod_agent_not_found", "production agent %s does not exist", id)
}

// InstanceNotFound is the error for an agent instance that is missing or that the caller cannot
// see.
func InstanceNotFound(id string) *domain.Error {
	return domain.Newf(domain.NotFound, "agent_instance_not_found", "agent instance %s does not exist", id)
}
