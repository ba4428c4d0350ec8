package app

import (
	"context"
	"slices"

	"everloop/domain"
	"everloop/infra/web"
)

// pictures fetches the pictures of messages under the network policy of their session.
type pictures struct {
	*backend
	web *web.Client
}

func (b *backend) newPictures() (pictures, error) {
	client, err := web.New(web.Config{
		Allow: b.settings.WebAllow, Own: b.settings.ownAddresses(), Timeout: web.PictureTimeout, MaxBody: web.MaxPicture,
		Identity: "Everloop/1.0 (pictures)",
	})

	return pictures{b, client}, err
}

// Picture implements chat.Pictures. The user wrote the address, so that it needs no rule; a
// plan restricts the agent and not the user.
func (p pictures) Picture(ctx context.Context, sessionID domain.SessionID, address string) (string, error) {
	policy, err := p.SessionPolicy(ctx, sessionID)
	if err != nil {
		return "", err
	}

	return p.web.Picture(ctx, address, func(host string, port uint16) error {
		if policy.Decide(host, port) == domain.PermissionDeny {
			return domain.Newf(domain.Forbidden, "web_refused", "the network policy of this session does not allow %s", host)
		}

		return nil
	})
}

// SessionPolicy implements mcp.Policies: the network policy of a session, whatever its chat
// does. No tool of a tool server is offered while a plan is made.
func (b *backend) SessionPolicy(ctx context.Context, sessionID domain.SessionID) (domain.NetworkPolicy, error) {
	session, _, rules, err := b.DB.NetworkSession(ctx, sessionID)
	if err != nil {
		return domain.NetworkPolicy{}, err
	}

	return b.policyOf(session, rules), nil
}

// policyOf returns the network policy of a session, whatever its chat does.
func (b *backend) policyOf(session domain.Session, rules []domain.PermissionRule) domain.NetworkPolicy {
	mode := b.settings.SandboxNetwork.Narrowed(session.Setup.Network)

	return domain.NewNetworkPolicy(mode, slices.Concat(b.Profile(session).Permissions, rules))
}
