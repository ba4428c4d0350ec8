package companion

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"

	"everloop/companions/credentials"
	"everloop/companions/gateway"
	"everloop/infra/secrets"
	"everloop/internal/app/flags"
	"everloop/internal/hosts"
	"everloop/internal/lifecycle"
)

// gatewayCompanion returns the model gateway next to the agent.
func gatewayCompanion() companion {
	return companion{
		label: "Model gateway", variable: "GATEWAY_ADDR",
		address: func(s *Settings) string { return s.GatewayAddr },
		open: func(_ context.Context, b *Beside, _ Agent, front net.Listener) (lifecycle.Service, error) {
			return lifecycle.Func("model gateway", func(ctx context.Context) error { return b.gateway.Serve(ctx, front) }), nil
		},
	}
}

// Gateway serves the model gateway alone.
type Gateway struct {
	DataDir  string `default:"./data" env:"DATA_DIR" type:"path" help:"Data directory: config/config.yaml and gateway-key are in it."`
	Addr     string `default:"127.0.0.1:30000" env:"GATEWAY_ADDR" help:"Where the model gateway listens."`
	Key      string `name:"llm-gateway-key" env:"LLM_GATEWAY_KEY" help:"Key of the operator; made and kept in gateway-key below KEY_DIR when unset."`
	MockAddr string `default:"127.0.0.1:30023" env:"MOCK_ADDR" help:"Where the mock service is, for sources of the kind demo: host:port or a URL."`

	AgentURL string `name:"agent-url" env:"AGENT_URL" help:"The agent, whose administrators' API keys open the management interface; none when unset."`

	flags.Keys  `embed:""`
	flags.Hosts `embed:""`
}

// Run implements the command.
func (c *Gateway) Run(ctx context.Context) error {
	if err := errors.Join(
		c.Hosts.Check(), flags.CheckAddress("GATEWAY_ADDR", c.Addr), checkGatewayKey(c.Key), flags.CheckURL("AGENT_URL", c.AgentURL),
	); err != nil {
		return err
	}

	service, err := newGateway(c.DataDir, c.Key, mockURL(c.MockAddr), c.AgentURL, c.Keys, c.Allowed())
	if err != nil {
		return err
	}

	front, err := flags.Listen("GATEWAY_ADDR", c.Addr)
	if err != nil {
		return err
	}

	return service.Serve(ctx, front)
}

// mockURL returns the URL of the mock service at an address, which can be a URL itself.
func mockURL(addr string) string {
	if flags.IsWeb(addr) {
		return addr
	}

	return "http://" + flags.Reachable(addr)
}

// checkGatewayKey reports an operator's key that can be guessed.
func checkGatewayKey(key string) error {
	if err := credentials.CheckKey(key); err != nil {
		return fmt.Errorf("LLM_GATEWAY_KEY %w", err)
	}

	return nil
}

// newGateway makes the gateway with the operator's key, given or kept. Without an agent no
// other key opens its management interface.
func newGateway(dataDir, key, mockURL, agent string, keys flags.Keys, allowed hosts.List) (*gateway.Service, error) {
	if key == "" {
		kept, err := gatewayKey(keys, dataDir)
		if err != nil {
			return nil, err
		}

		key = kept
	}

	cfg := gateway.Config{
		File: filepath.Join(dataDir, "config", "config.yaml"), Key: key, DemoURL: mockURL, Hosts: allowed, Log: slog.Default(),
	}
	if agent != "" {
		cfg.Credentials = credentials.New(agent, "")
	}

	return gateway.New(cfg)
}

// gatewayKey returns the key that is kept in a file, made at the first start.
func gatewayKey(keys flags.Keys, dataDir string) (string, error) {
	file, err := keys.KeyFile(dataDir, "gateway-key")
	if err != nil {
		return "", err
	}

	return secrets.KeyFile(file)
}

// OpenGateway makes the model gateway with the operator's key, given or kept, and gives
// that key.
func (b *Beside) OpenGateway(agent Agent, key string) (_ string, err error) {
	if err := checkGatewayKey(key); err != nil {
		return "", err
	}

	if key == "" {
		if key, err = gatewayKey(agent.Keys, agent.DataDir); err != nil {
			return "", err
		}
	}

	b.gateway, err = newGateway(
		agent.DataDir, key, "http://"+b.Addr("MOCK_ADDR"), b.settings.agentURL(agent), agent.Keys, agent.Hosts.Allowed(),
	)

	return key, err
}

// DemoOnly reports whether the gateway has only the demo model.
func (b *Beside) DemoOnly() bool { return b.gateway.DemoOnly() }
