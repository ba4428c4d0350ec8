package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"everloop/infra/secrets"
)

// settings are the flags and variables that the serving roles share
// (docs/configuration.md lists them; decisions.md section 1 fixes their names).
type settings struct {
	DataDir string `default:"./data" env:"DATA_DIR" type:"path" help:"Directory of everything that is kept."`

	AgentAddr      string   `default:"127.0.0.1:8020" env:"AGENT_ADDR" help:"Where the agent's API listens."`
	AllowedOrigins []string `env:"ALLOWED_ORIGINS" help:"Origins of other sites whose pages may call the API."`
	RateLimit      int      `env:"RATE_LIMIT_PER_MINUTE" help:"Requests a minute for one API key; 0: no limit."`
	BootstrapKey   string   `env:"BOOTSTRAP_API_KEY" help:"API key of the first administrator; one is made at the first start when unset."`

	DatabaseURL       string `env:"DATABASE_URL" help:"PostgreSQL 15 or newer; embedded when unset."`
	TemporalAddress   string `env:"TEMPORAL_ADDRESS" help:"host:port of a Temporal server; embedded when unset."`
	TemporalNamespace string `default:"everloop" env:"TEMPORAL_NAMESPACE" help:"Temporal namespace."`
	NATSURL           string `name:"nats-url" env:"NATS_URL" help:"NATS server with JetStream; embedded when unset."`
	S3Endpoint        string `name:"s3-endpoint" env:"S3_ENDPOINT" help:"host:port of an S3 server; embedded when unset."`
	S3Bucket          string `name:"s3-bucket" default:"everloop" env:"S3_BUCKET" help:"Bucket of the objects."`
	S3AccessKey       string `name:"s3-access-key" env:"S3_ACCESS_KEY" help:"Access key of the S3 server."`
	S3SecretKey       string `name:"s3-secret-key" env:"S3_SECRET_KEY" help:"Secret key of the S3 server."`
	S3UseTLS          bool   `name:"s3-use-tls" env:"S3_USE_TLS" help:"Speak HTTPS with the S3 server."`

	GatewayURL    string `name:"llm-gateway-url" env:"LLM_GATEWAY_URL" help:"A chat-completions server, without /v1; the demo model when unset."`
	GatewayKey    string `name:"llm-gateway-key" env:"LLM_GATEWAY_KEY" help:"Its key."`
	Model         string `name:"llm-model" env:"LLM_MODEL" help:"The model for sessions that name none; the server's first when unset."`
	ContextWindow int64  `default:"128000" env:"LLM_CONTEXT_WINDOW" help:"Tokens of context of a model whose server does not say."`

	GISMapURL string `name:"gis-map-url" env:"GIS_MAP_URL" help:"Address of a map service for front ends; none when unset."`

	EncryptionKey string `env:"ENCRYPTION_KEY" help:"Key of at least 32 characters for values encrypted at rest; kept in DATA_DIR/encryption-key when unset."`
	SolutionsDir  string `env:"SOLUTIONS_DIR" help:"Directory of further solutions, one subdirectory each; default: solutions below DATA_DIR."`

	mcpSettings   `embed:""`
	webSettings   `embed:""`
	skillSettings `embed:""`

	sharingSettings `embed:""`

	forkSettings `embed:""`

	SandboxMinLevel int           `default:"2" env:"SANDBOX_MIN_LEVEL" help:"Weakest confinement of tools to start with: 2 namespaces, 1 Landlock."`
	SandboxUnsafe   bool          `env:"SANDBOX_UNSAFE" help:"Run tools without any confinement where none is possible. Tools can then do what the service can."`
	SandboxMemory   int64         `name:"sandbox-memory-bytes" default:"2147483648" env:"SANDBOX_MEMORY_BYTES" help:"Memory of one command with all its children."`
	SandboxReadOnly []string      `env:"SANDBOX_READ_ONLY" help:"Further directories of the host that tools may read, as /opt."`
	SandboxProcs    int           `name:"sandbox-processes" default:"512" env:"SANDBOX_PROCESSES" help:"Processes and threads of one command."`
	WorkspaceBytes  int64         `default:"10737418240" env:"WORKSPACE_BYTES" help:"Bytes that a session's workspace may hold; 0: no limit."`
	StopTimeout     time.Duration `default:"8s" env:"STOP_TIMEOUT" help:"How long running tools may go on at a shutdown."`
}

// check finds all faults of the settings at once and makes paths absolute.
func (s *settings) check() error {
	dir, err := filepath.Abs(s.DataDir)
	if err != nil {
		return fmt.Errorf("DATA_DIR: %w", err)
	}
	s.DataDir = dir
	faults := []error{address("AGENT_ADDR", s.AgentAddr), s.bounds(), s.webSettings.check(), s.forkSettings.check(), s.skillSettings.check()}
	if s.S3Endpoint != "" && (s.S3AccessKey == "" || s.S3SecretKey == "") {
		faults = append(faults, errors.New("S3_ENDPOINT needs S3_ACCESS_KEY and S3_SECRET_KEY"))
	}
	if s.SandboxMinLevel < 1 || s.SandboxMinLevel > 2 {
		faults = append(faults, errors.New("SANDBOX_MIN_LEVEL must be 1 or 2"))
	}
	if s.GatewayURL != "" && !strings.HasPrefix(s.GatewayURL, "http://") && !strings.HasPrefix(s.GatewayURL, "https://") {
		faults = append(faults, errors.New("LLM_GATEWAY_URL must start with http:// or https://"))
	}
	return errors.Join(faults...)
}

// secretBox seals values with the configured key, or with the one kept below
// DATA_DIR.
func (s *settings) secretBox() (*secrets.Box, error) {
	key := s.EncryptionKey
	if key == "" {
		kept, err := secrets.KeyFile(filepath.Join(s.DataDir, "encryption-key"))
		if err != nil {
			return nil, fmt.Errorf("encryption key: %w", err)
		}
		key = kept
	}
	box, err := secrets.NewBox(key)
	if err != nil {
		return nil, fmt.Errorf("ENCRYPTION_KEY: %w", err)
	}
	return box, nil
}

// solutionsDir is where an operator's own solutions are.
func (s *settings) solutionsDir() string {
	if s.SolutionsDir != "" {
		return s.SolutionsDir
	}
	return filepath.Join(s.DataDir, "solutions")
}

// external reports the settings that a role without embedded engines misses.
func (s *settings) external() error {
	var missing []string
	for name, value := range map[string]string{
		"DATABASE_URL": s.DatabaseURL, "TEMPORAL_ADDRESS": s.TemporalAddress, "NATS_URL": s.NATSURL,
		"S3_ENDPOINT": s.S3Endpoint, "LLM_GATEWAY_URL": s.GatewayURL,
	} {
		if value == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("this role reaches its engines by address: set %s, or start everything with `everloop up`", strings.Join(missing, ", "))
}

func address(variable, value string) error {
	if _, _, err := net.SplitHostPort(value); err != nil {
		return fmt.Errorf("%s must be host:port, as 127.0.0.1:8020: %w", variable, err)
	}
	return nil
}

// listen takes a port; one that is taken is one clear error.
func listen(variable, addr string) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return nil, fmt.Errorf("cannot listen on %s (%w): choose another address with %s", addr, op.Err, variable)
	}
	return listener, err
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
