package app

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
	"everloop/internal/hosts"
	"everloop/internal/lifecycle"
)

// gatewayCompanion is the model gateway beside the agent.
func gatewayCompanion() companion {
	return companion{
		label: "Model gateway", variable: "GATEWAY_ADDR",
		address: func(c *Up) string { return c.GatewayAddr },
		open: func(_ context.Context, c *Up, front net.Listener) (lifecycle.Service, error) {
			return lifecycle.Func("model gateway", func(ctx context.Context) error { return c.gateway.Serve(ctx, front) }), nil
		},
	}
}

// Gateway serves the model gateway alone.
type Gateway struct {
	DataDir string `default:"./data" env:"DATA_DIR" type:"path" help:"Data directory: config/config.yaml and gateway-key are in it."`
	Addr    string `default:"127.0.0.1:30000" env:"GATEWAY_ADDR" help:"Where the model gateway listens."`
	Key     string `name:"llm-gateway-key" env:"LLM_GATEWAY_KEY" help:"Key of the operator; made and kept in gateway-key below KEY_DIR when unset."`
	MockURL string `default:"http://127.0.0.1:30023" env:"MOCK_URL" help:"Where the mock service is, for sources of the kind demo."`

	AgentURL string `name:"agent-url" env:"AGENT_URL" help:"The agent, whose administrators' API keys open the management interface; none when unset."`

	keySettings  `embed:""`
	hostSettings `embed:""`
}

// Run implements the command.
func (c *Gateway) Run(ctx context.Context) error {
	if err := errors.Join(
		c.check(), address("GATEWAY_ADDR", c.Addr), checkGatewayKey(c.Key), webURL("AGENT_URL", c.AgentURL),
	); err != nil {
		return err
	}

	service, err := newGateway(c.DataDir, c.Key, c.MockURL, c.AgentURL, c.keySettings, c.allowed())
	if err != nil {
		return err
	}

	front, err := listen("GATEWAY_ADDR", c.Addr)
	if err != nil {
		return err
	}

	return service.Serve(ctx, front)
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
func newGateway(dataDir, key, mockURL, agent string, keys keySettings, allowed hosts.List) (*gateway.Service, error) {
	if key == "" {
		kept, err := keys.gatewayKey(dataDir)
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

// gatewayKey is the key that is kept in a file, made at the first start.
func (s keySettings) gatewayKey(dataDir string) (string, error) {
	file, err := s.keyFile(dataDir, "gateway-key")
	if err != nil {
		return "", err
	}

	return secrets.KeyFile(file)
}

// useGateway makes the embedded gateway, and the agent its client unless another model
// server is set. The key of such a server does not open the embedded gateway. It
// reports whether the agent has only the demo model.
func (c *Up) useGateway(beside fronts) (demo bool, err error) {
	own := c.GatewayURL == ""

	key := ""
	if own {
		key = c.GatewayKey
		if err := checkGatewayKey(key); err != nil {
			return false, err
		}
	}

	if key == "" {
		if key, err = c.gatewayKey(c.DataDir); err != nil {
			return false, err
		}
	}

	agent := c.agentURL()

	c.gateway, err = newGateway(c.DataDir, key, "http://"+beside.addr("MOCK_ADDR"), agent, c.keySettings, c.allowed())
	if err != nil || !own {
		return false, err
	}

	c.GatewayURL, c.GatewayKey = "http://"+beside.addr("GATEWAY_ADDR"), key

	return c.gateway.DemoOnly(), nil
}
