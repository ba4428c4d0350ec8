package account

import (
	"context"
	"strings"

	"github.com/gofiber/fiber/v2"

	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/service/accounts"
)

// NetworkRuleRef is the path of an operation on one rule.
type NetworkRuleRef struct {
	ID string `path:"id" maxLength:"128" doc:"The rule." example:"01a1fd9b-4f0b-74a3-bdbc-594f816ae120"`
}

type networkRulePage struct {
	Items []domain.UserNetworkRule `json:"items" nullable:"false" doc:"The entries of this page."`
	Total int                      `json:"total" doc:"Total number of entries." example:"1"`
}

// NetworkRulesAPI manages network rules.
type NetworkRulesAPI struct {
	Accounts *accounts.Store
}

// Register adds the operations of the area to the interface.
func (a *NetworkRulesAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "list-network-rules", Method: fiber.MethodGet, Path: "/api/network-rules", Tag: "User",
		Summary: "List the caller's network rules",
		Scope:   auth.Unrestricted,
	},
		func(ctx context.Context, _ *struct{}) (*httpx.Body[networkRulePage], error) {
			rules, err := a.Accounts.NetworkRules(ctx, httpx.CallerOf(ctx).User.ID)
			return httpx.Answer(networkRulePage{fields.OrEmpty(rules), len(rules)}, err)
		})
	httpx.Register(r, httpx.Operation{
		ID: "set-network-rule", Method: fiber.MethodPost, Path: "/api/network-rules", Tag: "User",
		Summary: "Set a network rule",
		Description: "The rule applies to all of the caller's sessions and replaces the rule for the same domain. A deny rule wins " +
			"over every allow rule. A change takes effect within seconds, also for commands that are running.",
		Scope: auth.Unrestricted, Audit: "network_rule.set",
		Errors:  httpx.Codes{409: "network_rule_limit"},
		Example: `{"domain": "*.example.org", "decision": "allow"}`,
	}, a.setNetworkRule)
	httpx.Register(r, httpx.Operation{
		ID: "delete-network-rule", Method: fiber.MethodDelete, Path: "/api/network-rules/{id}", Tag: "User",
		Summary: "Delete a network rule",
		Scope:   auth.Unrestricted, Audit: "network_rule.delete",
		Errors: httpx.Codes{404: "network_rule_not_found"},
	},
		func(ctx context.Context, in *NetworkRuleRef) (*httpx.Body[fields.OkBody], error) {
			return httpx.Answer(fields.OkBody{OK: true}, a.Accounts.DeleteNetworkRule(ctx, httpx.CallerOf(ctx).User.ID, in.ID))
		})
}

func (a *NetworkRulesAPI) setNetworkRule(ctx context.Context, in *struct {
	Body struct {
		Domain   string                     `json:"domain" minLength:"1" maxLength:"300" doc:"As example.org, *.example.org or example.org:8443; without a port 22, 80 and 443." example:"*.example.org"`
		Decision *domain.PermissionDecision `json:"decision,omitempty" nullable:"true" enum:"allow,deny" default:"allow" doc:"The decision about the call."`
	}
},
) (*httpx.Body[domain.UserNetworkRule], error) {
	decision := domain.PermissionAllow
	if in.Body.Decision != nil {
		decision = *in.Body.Decision
	}

	rule, err := domain.NewNetworkRule(strings.TrimSpace(in.Body.Domain), decision)
	if err != nil {
		return nil, domain.Invalidf("body.domain", "%s", domain.CleanText(err.Error()))
	}

	set, err := a.Accounts.SetNetworkRule(ctx, httpx.CallerOf(ctx).User.ID, rule, decision)
	if err == nil {
		httpx.Concerns(ctx, set.ID, map[string]string{"domain": set.Domain, "decision": string(set.Decision)})
	}

	return httpx.Answer(set, err)
}
