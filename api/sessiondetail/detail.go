package sessiondetail

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"everloop/api/access"
	"everloop/api/fields"
	"everloop/domain"
	"everloop/domain/skill"
	"everloop/domain/toolserver"
	"everloop/infra/solutions"
	"everloop/service/skills"
)

// SessionSetup is what every session of this installation is set up with; the
// detail of a session shows it together with the session's own settings.
type SessionSetup struct {
	DefaultModel string
	PromptDigest func(domain.Mode, domain.Profile) string // names the version of a system prompt
	Tools        SessionTools
	SandboxImage string
	Network      domain.NetworkMode // of commands; a session can narrow it
}

// SessionDetail is one session with its settings. Its model is a string always.
type SessionDetail struct {
	ID              domain.SessionID     `json:"id" doc:"Its id." example:"01a1ff63-41a8-7c29-b842-41c53cd891d1"`
	Intent          string               `json:"intent" doc:"The purpose of the session." example:"Release notes, again"`
	Status          domain.SessionStatus `json:"status" enum:"created,running,completed,failed,interrupted,waiting_for_input" doc:"Its status."`
	WaitingReason   domain.WaitingReason `json:"waiting_reason" enum:"none,model,model_unavailable,tool,question,permission,rate_limit,child,slot,queued,worker_missing,budget" doc:"The reason why the session makes no progress."`
	QueueLength     int                  `json:"queue_length" doc:"Number of queued messages." example:"0"`
	CreatedAt       time.Time            `json:"created_at" doc:"Creation time."`
	UpdatedAt       time.Time            `json:"updated_at" doc:"Time of the last change."`
	UserID          string               `json:"user_id" doc:"The user." example:"01a1ff63-2da3-7551-9a1e-abad628e9c3d"`
	SolutionID      *string              `json:"solution_id" doc:"The solution."`
	BizRoleID       *string              `json:"biz_role_id" doc:"The role of the solution."`
	TemplateID      *string              `json:"template_id" doc:"The template that the session was created from; the service does not interpret it."`
	PrimarySkillID  *string              `json:"primary_skill_id" doc:"The primary skill of the session."`
	SoftwareFactory *int64               `json:"software_factory_id" doc:"A number that front ends use; the service does not interpret it."`
	WorkspaceID     *string              `json:"workspace_id" doc:"The production workspace whose members may read the session, if its owner is a member of it."`
	Model           string               `json:"model" doc:"The model."`
	Shared          bool                 `json:"shared" doc:"Whether all signed-in users may read it."`
	Pinned          bool                 `json:"is_pinned" doc:"Whether it is pinned to the top of lists."`
	MemoryEnabled   bool                 `json:"memory_enabled" doc:"Whether the session uses memories."`
	Persistent      bool                 `json:"is_persistent" doc:"Whether front ends persist the session."`
	ReplayState     *domain.ReplayState  `json:"replay_state" doc:"The state of the replay; null: the session is not a replay."`
	Solution        any                  `json:"solution" doc:"The solution of the session; {} for one without."`
	SkillSnapshot   *skillSnapshot       `json:"primary_skill_snapshot" doc:"null for a session without a primary skill."`
	LastEnd         *domain.LastEnd      `json:"last_end" doc:"The payload of the session's last chat:end; null before the first, and after a move in the history until the next."`
	Setup           setupBody            `json:"session_setup" doc:"The agent settings of the session."`
	ViewerRole      domain.ViewerRole    `json:"viewer_role" enum:"owner,admin,viewer" doc:"The caller's relation to the session."`
}

type setupBody struct {
	Mode               domain.Mode            `json:"mode" enum:"planning,executing" doc:"The mode of the agent."`
	Model              string                 `json:"model" doc:"The model that the next chat uses."`
	SystemPromptDigest string                 `json:"system_prompt_digest" doc:"SHA-256 of the session's system prompt, including that of its solution."`
	ToolsEnabled       []string               `json:"tools_enabled" doc:"What a chat in executing mode is offered; of tool servers what was last known." example:"[\"Bash\", \"Read\", \"Write\", \"Edit\"]"`
	DisableTools       []string               `json:"disable_tools" doc:"Tools that are disabled."`
	Skills             []sessionSkill         `json:"skills" doc:"The skills."`
	MCPServers         []setupMCPServer       `json:"mcp_servers" nullable:"false" doc:"The tool servers of the session."`
	ModelsAllowed      []string               `json:"models_allowed,omitempty" doc:"Models that sub-agents can take besides that of their caller; left out: those that cost no more."`
	MaxSteps           int                    `json:"max_steps" doc:"Model calls of one chat at most." example:"50"`
	StuckAfter         int                    `json:"stuck_after" doc:"The same tool call with the same result so often in a row ends the chat." example:"60"`
	MaxModelRetryS     *int                   `json:"max_model_retry_s,omitempty" doc:"Seconds for which a model call that keeps failing is retried. Left out: as the service is configured."`
	Network            domain.NetworkMode     `json:"network" enum:"none,rules,public" doc:"How far its commands reach into the network."`
	Budget             *shownBudget           `json:"budget,omitempty" doc:"Left out: unbounded."`
	Agents             []string               `json:"agents" nullable:"false" doc:"Names of the sub-agents besides the built-in ones."`
	Permissions        []PermissionRuleBody   `json:"permissions" nullable:"false" doc:"Rules that allow, deny or ask for tool calls."`
	Compaction         compactionBody         `json:"compaction" doc:"The settings of compaction." example:"{\"auto\": true, \"keep_last\": 6, \"threshold_pct\": 80}"`
	QuestionPolicy     *domain.QuestionPolicy `json:"question_policy,omitempty" doc:"What becomes of questions that no user answers. Left out: they wait."`
	Sandbox            sandboxBody            `json:"sandbox" doc:"The sandbox of the commands."`
	Agent              *domain.SessionAgent   `json:"agent,omitempty" doc:"The agent that it was made with; left out: none."`
	LayoutType         string                 `json:"layout_type,omitempty" doc:"The layout that its agent wants front ends to use; left out: that of the solution." example:"default"`
	PreviewURLs        []domain.PreviewURL    `json:"preview_urls,omitempty" doc:"Pages that front ends show beside it; left out: none."`
	InitScript         *initScriptBody        `json:"init_script,omitempty" doc:"The script that runs once, before its first chat; left out: none."`
	DeliveryDefault    domain.Delivery        `json:"delivery_default" enum:"enqueue,steer,interrupt,reject" doc:"The default delivery of a message while a chat is running."`
}

type initScriptBody struct {
	TaskID string `json:"task_id" doc:"The background task that runs it: its status, its output." example:"init_01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
}

type shownBudget struct {
	MaxTokens *int64   `json:"max_tokens" doc:"Input and output tokens; null: no limit." example:"500000"`
	MaxCost   *float64 `json:"max_cost" doc:"Cost by the prices of the models; null: no limit."`
}

type compactionBody struct {
	Auto         bool `json:"auto" doc:"Whether it is automatic."`
	ThresholdPct int  `json:"threshold_pct" doc:"Percent of the context window at which the history is summarised." example:"80"`
	KeepLast     int  `json:"keep_last" doc:"Number of turns that are not summarised." example:"6"`
}

type sandboxBody struct {
	Image string    `json:"image" doc:"The environment in which commands run, as SANDBOX_IMAGE names it." example:"host"`
	State string    `json:"state" enum:"idle,running" doc:"Whether tool calls or background commands run now."`
	Since time.Time `json:"since" doc:"running: start of the oldest of them; idle: end of the last one, at the latest the start of the newest turn."`
}

// SessionViews makes the detail of a session.
type SessionViews struct {
	ToolServers
	Context     context.Context // of reads that outlive their request
	Setup       SessionSetup
	Profile     func(domain.Session) domain.Profile
	ModelFinder Models
	Solutions   *solutions.Catalog
	Skills      *skills.Service
	Logger      *slog.Logger
}

// DetailOf shows a session to a user with this relation to it.
func (a *SessionViews) DetailOf(session domain.Session, role domain.ViewerRole) SessionDetail {
	return SessionDetail{
		ID: session.ID, Intent: session.Intent, Status: session.Status, WaitingReason: session.WaitingReason,
		QueueLength: session.QueueLength, CreatedAt: session.CreatedAt, UpdatedAt: session.UpdatedAt, UserID: session.OwnerID,
		SolutionID: session.SolutionID, BizRoleID: session.BizRoleID, TemplateID: session.TemplateID,
		PrimarySkillID: session.PrimarySkillID, SoftwareFactory: session.SoftwareFactory, WorkspaceID: session.WorkspaceID,
		Model: fields.Value(session.Model), Shared: session.Shared, Pinned: session.Pinned, MemoryEnabled: session.MemoryEnabled,
		ReplayState: session.Replay, Persistent: session.Persistent, Solution: a.solutionOfSession(session), LastEnd: session.LastEnd,
		Setup: a.setupOf(session), SkillSnapshot: a.SnapshotOf(session), ViewerRole: role,
	}
}

// solutionOfSession is {} without a solution, and its bare id when the solution
// is no longer there.
func (a *SessionViews) solutionOfSession(session domain.Session) any {
	if session.SolutionID == nil {
		return struct{}{}
	}

	solution, err := a.Solutions.Get(*session.SolutionID)
	if err != nil {
		return map[string]any{"id": *session.SolutionID}
	}

	return access.SolutionOf(solution)
}

func (a *SessionViews) setupOf(session domain.Session) setupBody {
	ctx, cancel := context.WithTimeout(a.Context, detailPatience)
	defer cancel()

	profile := a.Profile(session)
	disabled := slices.Concat(session.DisableTools, profile.DisableTools)

	out := setupBody{
		Mode:               session.Mode,
		Model:              fields.Value(session.Model),
		SystemPromptDigest: a.Setup.PromptDigest(session.Mode, profile),
		ToolsEnabled:       a.toolsOf(ctx, session),
		DisableTools:       fields.OrEmpty(disabled),
		Skills:             a.skillsOf(ctx, session),
		MCPServers:         a.mcpServersOf(ctx, session),
		ModelsAllowed:      profile.ModelsAllowed,
		MaxSteps:           profile.MaxSteps,
		StuckAfter:         profile.StuckAfter,
		DeliveryDefault:    domain.DeliverEnqueue,
		Network:            a.Setup.Network.Narrowed(session.Setup.Network),
		Agents:             []string{},
		Permissions:        []PermissionRuleBody{},
		Compaction:         compactionBody(profile.Compaction),
		Sandbox:            a.sandboxOf(session),
	}
	for _, a := range profile.Agents {
		out.Agents = append(out.Agents, a.Name)
	}

	for _, p := range profile.Permissions {
		out.Permissions = append(out.Permissions, PermissionRuleBody(p))
	}

	if profile.Budget != (domain.Budget{}) {
		budget := shownBudget(profile.Budget)
		out.Budget = &budget
	}

	out.Agent, out.LayoutType, out.PreviewURLs = session.Setup.Agent, session.Setup.LayoutType, session.Setup.PreviewURLs
	if session.InitTaskID != nil {
		out.InitScript = &initScriptBody{*session.InitTaskID}
	}

	if retry := session.Setup.MaxModelRetryS; retry > 0 {
		out.MaxModelRetryS = &retry
	}

	if policy := session.Setup.QuestionPolicy; policy != nil && *policy != (domain.QuestionPolicy{}) {
		out.QuestionPolicy = policy
	}

	if out.Model == "" {
		out.Model = a.defaultModel()
	}

	return out
}

// sandboxOf reports whether commands of the session run now.
func (a *SessionViews) sandboxOf(session domain.Session) sandboxBody {
	if session.CommandsSince != nil {
		return sandboxBody{Image: a.Setup.SandboxImage, State: "running", Since: *session.CommandsSince}
	}

	return sandboxBody{Image: a.Setup.SandboxImage, State: "idle", Since: session.RestsSince}
}

// defaultModel returns what the next chat of a session without a model uses; "" while
// the model server does not answer.
func (a *SessionViews) defaultModel() string {
	if a.Setup.DefaultModel != "" {
		return a.Setup.DefaultModel
	}

	ctx, cancel := context.WithTimeout(a.Context, 2*time.Second)
	defer cancel()

	model, err := a.ModelFinder.Resolve(ctx, "") // it remembers, also that it has no answer
	if err != nil {
		return ""
	}

	return model.ID
}

// PermissionRuleBody is a permission rule as clients see and send it.
type PermissionRuleBody struct {
	Tool     string                    `json:"tool" minLength:"1" maxLength:"256" doc:"A tool's name, * for any text, as mcp__files__*. Network: the rule is one of a domain that commands may connect to."`
	Pattern  string                    `json:"pattern,omitempty" maxLength:"2000" doc:"What the call (its commands, its path, its arguments) must look like, * for any text; empty: every call. Of the tool Network a domain, as example.org, *.example.org or example.org:8443."`
	Argument string                    `json:"argument,omitempty" maxLength:"200" doc:"The only argument that the pattern is compared with; left out: what the call is about (docs/safety.md)."`
	Decision domain.PermissionDecision `json:"decision" enum:"allow,ask,deny" doc:"The decision about the call."`
	Digest   string                    `json:"digest,omitempty" pattern:"^sha256:[0-9a-f]{64}$" doc:"The rule matches exactly one call: the digest of its tool and arguments. An answer to a question for permission adds it." example:"sha256:6809e5a7f8c87fb10bc53380fe7b788641321ea510cec8d503c2a5f35dd1fe99"`
	Call     string                    `json:"call,omitempty" maxLength:"20000" doc:"The call of the digest, for people."`
}

// SessionTools gives the names of the tools that the main loop of a session is
// offered in executing mode, those of its own (its skills, its tool servers as
// they were last known) included. It sends no request and is quick.
type SessionTools func(ctx context.Context, session domain.Session) []string

// toolsOf gives the part of a session's setup that is about tools.
func (a *SessionViews) toolsOf(ctx context.Context, session domain.Session) []string {
	if session.ID == "" {
		return []string{} // the answer is an error
	}

	return fields.OrEmpty(a.Setup.Tools(ctx, session))
}

// setupMCPServer is a tool server in a session's setup; how its connection is,
// and what it offers, its own operation returns.
type setupMCPServer struct {
	ID        string           `json:"id" doc:"Empty for a server that the solution's files configure."`
	Name      string           `json:"name" doc:"Its name."`
	Scope     toolserver.Scope `json:"scope" enum:"service,solution,session" doc:"Its scope."`
	Transport string           `json:"transport" enum:"stdio,http" doc:"The transport."`
}

// mcpServersOf returns the tool servers that a session uses.
func (a *SessionViews) mcpServersOf(ctx context.Context, session domain.Session) []setupMCPServer {
	out := []setupMCPServer{}
	if session.ID == "" {
		return out
	}

	servers, err := a.ServersOf(ctx, session)
	if err != nil {
		a.Logger.Warn("tool servers of a session not shown", "session_id", session.ID, "error", err)
		return out
	}

	used, _ := toolserver.Used(servers)
	for _, r := range used {
		out = append(out, setupMCPServer{r.ID, r.Name, r.Scope, r.Transport})
	}

	return out
}

// sessionSkill is one skill in a session's setup.
type sessionSkill struct {
	Name    string       `json:"name" doc:"Its name." example:"data-table-report"`
	Org     string       `json:"org,omitempty" doc:"The publisher."`
	Version string       `json:"version" doc:"The version." example:"1.0.0"`
	Digest  string       `json:"digest" doc:"SHA-256 of the content."`
	Source  skill.Source `json:"source" enum:"builtin,registry,uploaded,partner" doc:"The source."`
}

// skillSnapshot is the version of its primary skill that a session keeps to.
type skillSnapshot struct {
	SkillID    string    `json:"skill_id" doc:"The skill."`
	Org        string    `json:"org" doc:"The publisher."`
	Name       string    `json:"name" doc:"Its name."`
	Version    string    `json:"version" doc:"The version."`
	Digest     string    `json:"digest" doc:"SHA-256 of the content."`
	Path       string    `json:"path" doc:"In the session's workspace."`
	FilesCount int       `json:"files_count" doc:"Number of files in the package."`
	TakenAt    time.Time `json:"taken_at" doc:"Creation time of the snapshot."`
}

// detailPatience bounds how long what is next to its row may hold up the detail of a
// session.
const detailPatience = 5 * time.Second

// skillsOf gives the part of a session's setup that is about skills. The detail
// is given without it when it cannot be had.
func (a *SessionViews) skillsOf(ctx context.Context, session domain.Session) []sessionSkill {
	out := []sessionSkill{}
	if session.ID == "" {
		return out // the answer is an error
	}

	skills, err := a.Skills.SetUp(ctx, session)
	if err != nil {
		a.Logger.Warn("skills of a session not shown", "session_id", session.ID, "error", err)
	}

	for _, skill := range skills {
		out = append(
			out,
			sessionSkill{Name: skill.Name, Org: skill.Org, Version: skill.Version, Digest: skill.Digest, Source: skill.Source},
		)
	}

	return out
}

// SnapshotOf gives the snapshot of the primary skill, and takes it at first.
func (a *SessionViews) SnapshotOf(session domain.Session) *skillSnapshot {
	if session.ID == "" || fields.Value(session.PrimarySkillID) == "" {
		return nil
	}

	ctx, cancel := context.WithTimeout(a.Context, detailPatience)
	defer cancel()

	snapshot, err := a.Skills.Snapshot(ctx, session)
	if err != nil {
		a.Logger.Warn("the primary skill of a session was not kept", "session_id", session.ID, "error", err)
	}

	if snapshot == nil {
		return nil
	}

	out := skillSnapshot(*snapshot)

	return &out
}
