package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/domain/permission"
	"everloop/infra/egress"
	"everloop/infra/netguard"
	"everloop/infra/sandbox"
	"everloop/infra/toolbox"
)

// networkSettings say how far commands reach into the network.
type networkSettings struct {
	SandboxNetwork domain.NetworkMode `name:"sandbox-network" default:"rules" enum:"none,rules,public" env:"SANDBOX_NETWORK" help:"Network of commands, tool servers of users and the tools for the web: none, rules (the domains that rules of the session, its user or its solution allow) or public. A session can narrow it."`
	NetworkAllow   []string           `name:"sandbox-network-allow" env:"SANDBOX_NETWORK_ALLOW" help:"Non-public hosts that commands may reach where rules allow it: host, host:port, *.domain, a network."`
}

// networkGuard checks the addresses that commands connect to; own is where this
// service listens. A connection has no path, so that none is named.
func (s *networkSettings) networkGuard(own []string) (*netguard.Guard, error) {
	guard, err := guardWithoutPaths(s.NetworkAllow, own)
	if err != nil {
		return nil, fmt.Errorf("SANDBOX_NETWORK_ALLOW: %w", err)
	}

	return guard, nil
}

func (s *networkSettings) check() error {
	_, err := s.networkGuard(nil)
	if !s.SandboxNetwork.Valid() {
		err = errors.Join(err, errors.New("SANDBOX_NETWORK must be none, rules or public"))
	}

	return err
}

// connectCommands gives the commands of a shell, and what describes its tools, the
// network of the configuration. A sandbox without a network of its own has none.
func (b *backend) connectCommands(shell *toolbox.Shell, deps *tools.Deps, box *sandbox.Sandbox) error {
	mode := b.settings.SandboxNetwork
	if mode != domain.NetworkNone && !box.Networked() {
		b.logger.Warn("commands have no network at this level of the sandbox", "level", box.Level().String())

		mode = domain.NetworkNone
	}

	if mode == domain.NetworkNone {
		return nil
	}

	guard, err := b.settings.networkGuard(b.settings.ownAddresses())
	if err != nil {
		return err
	}

	shell.Proxy, shell.Policies = egress.New(egress.Config{Guard: guard}), b
	deps.Network = mode

	return nil
}

// NetworkPolicy implements tools.NetworkPolicies: the rules of the session, its
// solution and its owner, within the modes of the service and the session. While a
// plan is made there is no network.
func (b *backend) NetworkPolicy(ctx context.Context, sessionID domain.SessionID) (domain.NetworkPolicy, error) {
	session, planning, rules, err := b.DB.NetworkSession(ctx, sessionID)
	if err != nil || planning {
		return domain.NetworkPolicy{}, err
	}

	return b.policyOf(session, rules), nil
}

// ToolDecision implements tools.WebPolicies.
func (b *backend) ToolDecision(
	ctx context.Context, sessionID domain.SessionID, tool string, arguments json.RawMessage,
) (domain.PermissionDecision, error) {
	session, _, _, err := b.DB.NetworkSession(ctx, sessionID)
	if err != nil {
		return domain.PermissionDeny, err
	}

	return permission.Decide(b.Profile(session).Permissions, permission.Call{Tool: tool, Arguments: arguments}), nil
}

// AddressNamed implements tools.WebPolicies.
func (b *backend) AddressNamed(ctx context.Context, sessionID domain.SessionID, address string) (bool, error) {
	return b.DB.AddressNamed(ctx, sessionID, address)
}
