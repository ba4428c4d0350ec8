package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"everloop/auth"
	"everloop/internal/app/backup"
	"everloop/internal/app/engine"
	"everloop/internal/app/flags"
)

// settings are the flags and variables that the serving roles share;
// docs/configuration.md lists them.
type settings struct {
	DataDir string `default:"./data" env:"DATA_DIR" type:"path" help:"Data directory."`

	AgentAddr      string   `default:"127.0.0.1:8020" env:"AGENT_ADDR" help:"Where the agent's API listens."`
	AllowedOrigins []string `env:"ALLOWED_ORIGINS" help:"Origins of other sites whose pages may call the API."`
	RateLimit      int      `env:"RATE_LIMIT_PER_MINUTE" help:"Requests a minute for one API key, over REST and Socket.IO together; 0: no limit."`
	BootstrapKey   string   `env:"BOOTSTRAP_API_KEY" help:"API key of the first administrator, of at least 16 characters; one is made at the first start when unset."`

	engine.Settings `embed:""`

	GatewayURL    string `name:"llm-gateway-url" env:"LLM_GATEWAY_URL" help:"Base URL of a chat-completions server, without /v1; the demo model when unset."`
	GatewayKey    string `name:"llm-gateway-key" env:"LLM_GATEWAY_KEY" help:"Key of that server."`
	Model         string `name:"llm-model" env:"LLM_MODEL" help:"The model for sessions that name none; the server's first when unset."`
	ContextWindow int64  `default:"128000" env:"LLM_CONTEXT_WINDOW" help:"Tokens of context of a model whose server does not say."`
	priceSettings `embed:""`

	EncryptionKey  string `env:"ENCRYPTION_KEY" help:"Key of at least 32 characters for values encrypted at rest; when unset, one is made and kept in encryption-key below KEY_DIR."`
	flags.Keys     `embed:""`
	flags.Hosts    `embed:""`
	signInSettings `embed:""`

	mcpSettings     `embed:""`
	webhookSettings `embed:""`
	webSettings     `embed:""`
	skillSettings   `embed:""`
	GitURL          string `name:"git-url" env:"GIT_URL" help:"Git hosting, which the diagnostics check; that of this process when unset (up only)."`

	networkSettings  `embed:""`
	sharingSettings  `embed:""`
	frontendSettings `embed:""`
	limitSettings    `embed:""`
	flags.Proxies    `embed:""`

	forkSettings `embed:""`

	retentionSettings `embed:""`
	tracingSettings   `embed:""`
	retrySettings     `embed:""`
	workflowSettings  `embed:""`
	runtimeSettings   `embed:""`

	kindSettings `embed:""`

	SandboxMinLevel int      `default:"2" env:"SANDBOX_MIN_LEVEL" help:"Weakest confinement of tools to start with: 2 namespaces, 1 Landlock, 0 none. Without any, tools can do what the service can."`
	SandboxMemory   int64    `name:"sandbox-memory-bytes" default:"2147483648" env:"SANDBOX_MEMORY_BYTES" help:"Memory of one command with all its children."`
	SandboxReadOnly []string `env:"SANDBOX_READ_ONLY" help:"Additional read-only host directories for tools, such as /opt."`
	SandboxProcs    int      `name:"sandbox-processes" default:"512" env:"SANDBOX_PROCESSES" help:"Processes and threads of one command."`
	WorkspaceBytes  int64    `default:"10737418240" env:"WORKSPACE_BYTES" help:"Bytes that a session's workspace may hold; 0: no limit."`
	WorkspaceInodes int64    `default:"1000000" env:"WORKSPACE_INODES" help:"Files and directories that a session's workspace may hold; 0: no limit."`
	browserSettings `embed:""`
	boundSettings   `embed:""`
	StopTimeout     time.Duration `default:"8s" env:"STOP_TIMEOUT" help:"How long running tools and model calls may continue at a shutdown."`
}

// check finds all faults of the settings at once and makes paths absolute.
func (s *settings) check() error {
	dir, err := filepath.Abs(s.DataDir)
	if err != nil {
		return fmt.Errorf("DATA_DIR: %w", err)
	}

	s.DataDir = dir

	faults := []error{
		flags.CheckAddress("AGENT_ADDR", s.AgentAddr),
		s.bounds(),
		s.webSettings.check(),
		s.browserSettings.check(),
		s.networkSettings.check(),
		s.forkSettings.check(),
		s.skillSettings.check(),
		flags.CheckURL("GIT_URL", s.GitURL),
		s.retrySettings.check(),
		s.retentionSettings.check(),
		s.runtimeSettings.check(),
		s.priceSettings.check(),
		s.Settings.Check(s.Keys, s.DataDir),
		s.frontendSettings.check(),
		s.speechSettings.check(),
		s.limitSettings.check(),
		s.Proxies.Check(),
		s.kindSettings.check(),
		s.boundSettings.check(),
		s.Hosts.Check(),
		s.tracingSettings.check(),
		s.signInSettings.check(),
		flags.CheckPublished(s.EncryptionKey, s.AgentAddr),
		backup.CheckRestored(s.DataDir),
	}
	if s.BootstrapKey != "" {
		faults = append(faults, auth.CheckBootstrapKey(s.BootstrapKey))
	}

	if s.SandboxMinLevel < 0 || s.SandboxMinLevel > 2 {
		faults = append(faults, errors.New("SANDBOX_MIN_LEVEL must be 0, 1 or 2"))
	}

	if s.GatewayURL != "" && !strings.HasPrefix(s.GatewayURL, "http://") && !strings.HasPrefix(s.GatewayURL, "https://") {
		faults = append(faults, errors.New("LLM_GATEWAY_URL must start with http:// or https://"))
	}

	return errors.Join(faults...)
}

// external reports the settings that a role without embedded engines misses.
func (s *settings) external() error {
	var missing []string
	for _, e := range s.Embedded() {
		missing = append(missing, e.Variable)
	}

	if s.GatewayURL == "" {
		missing = append(missing, "LLM_GATEWAY_URL")
	}

	if len(missing) == 0 {
		return nil
	}

	slices.Sort(missing)

	return fmt.Errorf(
		"this role reaches its engines by address: set %s, or start everything with `everloop up`",
		strings.Join(missing, ", "),
	)
}

// keepBootstrapKey writes the first key where the operator finds it again.
func keepBootstrapKey(dataDir, key string) error {
	path := filepath.Join(dataDir, "bootstrap-key")

	temp := path + ".new"
	if err := os.WriteFile(temp, []byte(key+"\n"), 0o600); err != nil {
		return fmt.Errorf("keep the first API key: %w", err)
	}

	return os.Rename(temp, path)
}
