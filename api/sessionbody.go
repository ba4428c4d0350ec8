package api

import (
	"context"
	"slices"
	"strings"
	"time"

	"everloop/domain"
)

// SessionSetup is what every session of this installation is set up with; the
// detail of a session shows it together with the session's own settings.
type SessionSetup struct {
	DefaultModel string
	PromptDigest func(domain.Mode, domain.Profile) string // names the version of a system prompt
	Tools        SessionTools
	SandboxImage string
}

// sessionSummary is one session in the list (agent-service.md).
type sessionSummary struct {
	ID            string               `json:"id"`
	Intent        string               `json:"intent"`
	Status        domain.SessionStatus `json:"status" enum:"created,running,completed,failed,interrupted,waiting_for_input"`
	WaitingReason domain.WaitingReason `json:"waiting_reason" enum:"none,model,tool,question,permission,rate_limit,child,slot,queued,worker_missing,budget" doc:"Why the session is not moving."`
	QueueLength   int                  `json:"queue_length" doc:"Messages that wait for their chat."`
	CreatedAt     time.Time            `json:"created_at"`
	UpdatedAt     time.Time            `json:"updated_at"`
	UserID        string               `json:"user_id"`
	SolutionID    *string              `json:"solution_id"`
	BizRoleID     *string              `json:"biz_role_id"`
	Model         *string              `json:"model"`
	Shared        bool                 `json:"shared"`
	Pinned        bool                 `json:"is_pinned"`
	MemoryEnabled bool                 `json:"memory_enabled"`
	Persistent    bool                 `json:"is_persistent"`
	ReplayState   *domain.ReplayState  `json:"replay_state"`
}

// SessionDetail is one session with its settings. Its model is a string always.
type SessionDetail struct {
	ID              string               `json:"id"`
	Intent          string               `json:"intent"`
	Status          domain.SessionStatus `json:"status" enum:"created,running,completed,failed,interrupted,waiting_for_input"`
	WaitingReason   domain.WaitingReason `json:"waiting_reason" enum:"none,model,tool,question,permission,rate_limit,child,slot,queued,worker_missing,budget"`
	QueueLength     int                  `json:"queue_length"`
	CreatedAt       time.Time            `json:"created_at"`
	UpdatedAt       time.Time            `json:"updated_at"`
	UserID          string               `json:"user_id"`
	SolutionID      *string              `json:"solution_id"`
	BizRoleID       *string              `json:"biz_role_id"`
	TemplateID      *string              `json:"template_id"`
	PrimarySkillID  *string              `json:"primary_skill_id"`
	SoftwareFactory *int64               `json:"software_factory_id"`
	WorkspaceID     *string              `json:"workspace_id"`
	Model           string               `json:"model"`
	Shared          bool                 `json:"shared"`
	Pinned          bool                 `json:"is_pinned"`
	MemoryEnabled   bool                 `json:"memory_enabled"`
	Persistent      bool                 `json:"is_persistent"`
	ReplayState     *domain.ReplayState  `json:"replay_state"`
	Solution        any                  `json:"solution" doc:"The solution of the session; {} for one without."`
	SkillSnapshot   *skillSnapshot       `json:"primary_skill_snapshot" doc:"null for a session without a primary skill."`
	Setup           setupBody            `json:"session_setup"`
	ViewerRole      domain.ViewerRole    `json:"viewer_role" enum:"owner,admin,viewer"`
}

// sessionWithEnv is the answer to a change of the environment, the only one
// that tells it.
type sessionWithEnv struct {
	SessionDetail
	Env map[string]string `json:"env"`
}

type setupBody struct {
	Mode               domain.Mode          `json:"mode" enum:"planning,executing"`
	Model              string               `json:"model" doc:"The model that the next chat uses."`
	SystemPromptDigest string               `json:"system_prompt_digest"`
	ToolsEnabled       []string             `json:"tools_enabled" doc:"What a chat in executing mode is offered; of tool servers what was last known."`
	DisableTools       []string             `json:"disable_tools"`
	Skills             []sessionSkill       `json:"skills"`
	MCPServers         []setupMCPServer     `json:"mcp_servers" nullable:"false"`
	MaxSteps           int                  `json:"max_steps" doc:"Model calls of one chat at most."`
	StuckAfter         int                  `json:"stuck_after" doc:"The same tool call with the same result so often in a row ends the chat."`
	Budget             *shownBudget         `json:"budget,omitempty" doc:"Left out: unbounded."`
	Agents             []string             `json:"agents" nullable:"false" doc:"Names of the sub-agents besides the built-in ones."`
	Permissions        []permissionRuleBody `json:"permissions" nullable:"false"`
	Compaction         compactionBody       `json:"compaction"`
	Sandbox            sandboxBody          `json:"sandbox"`
	DeliveryDefault    domain.Delivery      `json:"delivery_default" enum:"enqueue,steer,interrupt,reject"`
}

type shownBudget struct {
	MaxTokens *int64   `json:"max_tokens"`
	MaxCost   *float64 `json:"max_cost"`
}

type compactionBody struct {
	Auto         bool `json:"auto"`
	ThresholdPct int  `json:"threshold_pct"`
	KeepLast     int  `json:"keep_last"`
}

type sandboxBody struct {
	Image string    `json:"image"`
	State string    `json:"state" enum:"idle,running"`
	Since time.Time `json:"since"`
}

func summaryOf(s domain.Session) sessionSummary {
	return sessionSummary{
		ID: s.ID, Intent: s.Intent, Status: s.Status, WaitingReason: s.WaitingReason, QueueLength: s.QueueLength,
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, UserID: s.OwnerID, SolutionID: s.SolutionID, BizRoleID: s.BizRoleID,
		Model: s.Model, Shared: s.Shared, Pinned: s.Pinned, MemoryEnabled: s.MemoryEnabled, Persistent: s.Persistent,
		ReplayState: s.Replay,
	}
}

func (s *server) detailOf(session domain.Session, role domain.ViewerRole) SessionDetail {
	return SessionDetail{
		ID: session.ID, Intent: session.Intent, Status: session.Status, WaitingReason: session.WaitingReason,
		QueueLength: session.QueueLength, CreatedAt: session.CreatedAt, UpdatedAt: session.UpdatedAt, UserID: session.OwnerID,
		SolutionID: session.SolutionID, BizRoleID: session.BizRoleID, TemplateID: session.TemplateID,
		PrimarySkillID: session.PrimarySkillID, SoftwareFactory: session.SoftwareFactory, WorkspaceID: session.WorkspaceID,
		Model: value(session.Model), Shared: session.Shared, Pinned: session.Pinned, MemoryEnabled: session.MemoryEnabled,
		ReplayState: session.Replay, Persistent: session.Persistent, Solution: s.solutionOfSession(session), Setup: s.setupOf(session), SkillSnapshot: s.snapshotOf(session), ViewerRole: role,
	}
}

// solutionOfSession is {} without a solution, and its bare id when the solution
// is no longer there.
func (s *server) solutionOfSession(session domain.Session) any {
	if session.SolutionID == nil {
		return struct{}{}
	}
	solution, err := s.Solutions.Get(*session.SolutionID)
	if err != nil {
		return map[string]any{"id": *session.SolutionID}
	}
	return solutionOf(solution)
}

func (s *server) setupOf(session domain.Session) setupBody {
	ctx, cancel := context.WithTimeout(s.Context, detailPatience)
	defer cancel()
	profile := s.Profile(session)
	disabled := slices.Concat(session.DisableTools, profile.DisableTools)
	out := setupBody{
		Mode: session.Mode, Model: value(session.Model), SystemPromptDigest: s.Setup.PromptDigest(session.Mode, profile),
		ToolsEnabled: s.toolsOf(ctx, session), DisableTools: orEmpty(disabled), Skills: s.skillsOf(ctx, session), MCPServers: s.mcpServersOf(ctx, session),
		MaxSteps: profile.MaxSteps, StuckAfter: profile.StuckAfter, DeliveryDefault: domain.DeliverEnqueue,
		Agents: []string{}, Permissions: []permissionRuleBody{}, Compaction: compactionBody(profile.Compaction),
		Sandbox: sandboxBody{Image: s.Setup.SandboxImage, State: "idle", Since: session.UpdatedAt},
	}
	for _, a := range profile.Agents {
		out.Agents = append(out.Agents, a.Name)
	}
	for _, p := range profile.Permissions {
		out.Permissions = append(out.Permissions, permissionRuleBody(p))
	}
	if profile.Budget != (domain.Budget{}) {
		budget := shownBudget(profile.Budget)
		out.Budget = &budget
	}
	if out.Model == "" {
		out.Model = s.defaultModel()
	}
	if session.Status == domain.SessionRunning {
		out.Sandbox.State = "running"
	}
	return out
}

// defaultModel is what the next chat of a session without a model uses; "" while
// the model server does not answer.
func (s *server) defaultModel() string {
	if s.Setup.DefaultModel != "" {
		return s.Setup.DefaultModel
	}
	ctx, cancel := context.WithTimeout(s.Context, 2*time.Second)
	defer cancel()
	model, err := s.ModelFinder.Resolve(ctx, "") // it remembers, also that it has no answer
	if err != nil {
		return ""
	}
	return model.ID
}

// Bounds of a session's environment.
const (
	maxEnvVars  = 500
	maxEnvBytes = 100_000 // all names and values: what a process can be given
)

// cleanEnv checks an environment. Its errors name a variable and never a value.
func cleanEnv(given map[string]string) (map[string]string, error) {
	if len(given) > maxEnvVars {
		return nil, domain.Invalidf("body.env", "has more than %d variables", maxEnvVars)
	}
	env := make(map[string]string, len(given))
	size := 0
	for name, v := range given {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(v, "\x00") {
			return nil, domain.Invalidf("body.env", "has a name that is empty or holds =, or a NUL character")
		}
		size += len(name) + len(v) + 2
		env[name] = v
	}
	if size > maxEnvBytes {
		return nil, domain.Invalidf("body.env", "is larger than %d bytes", maxEnvBytes)
	}
	return env, nil
}
