package questions

import (
	"context"
	_ "embed"
	"encoding/json"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"everloop/activities/tools"
	"everloop/domain"
)

//go:embed requestaccess.md
var requestAccessDescription string

// RequestAccess names the tool by which the agent asks for domains.
const RequestAccess = "RequestAccess"

type accessArguments struct {
	Domains []string `json:"domains" jsonschema:"The domains, as example.org, *.example.org or example.org:8443" limits:"1.." each:"1..300"`
	Reason  string   `json:"reason" jsonschema:"What they are needed for, for the user" limits:"1..1000"`
}

type requestAccess struct{ policies tools.NetworkPolicies }

// NewRequestAccess returns a new tool. A call is put to the user before it is run: that
// it runs at all means that they allowed it.
func NewRequestAccess(d tools.Deps) tools.Tool {
	return tools.Tool{
		Name: RequestAccess, DisplayName: "Network access",
		Spec: domain.ToolSpec{
			Name: RequestAccess, Description: requestAccessDescription,
			Parameters: tools.Parameters[accessArguments](func(s *jsonschema.Schema) {
				most := domain.MaxAccessRequests
				s.Properties["domains"].MaxItems = &most
			}),
		},
		Executing: true,
		Withhold: func(s tools.Scope) string {
			if d.Network.Narrowed(s.Session.Setup.Network) != domain.NetworkRules {
				return "commands of this session have no network"
			}

			return ""
		},
		Check: func(arguments json.RawMessage) string {
			if _, _, err := ParseAccess(arguments); err != nil {
				return err.Error()
			}

			return ""
		},
		Access:  askedAccess,
		Run:     requestAccess{d.Policies}.run,
		Summary: func(arguments json.RawMessage) string { return accessSummary(arguments) },
	}
}

// askedAccess implements tools.Tool.Access: a call is always put to the user.
func askedAccess(_ context.Context, _ domain.SessionID, arguments json.RawMessage) *tools.Access {
	rules, reason, _ := ParseAccess(arguments) // they were checked when the call was admitted

	return &tools.Access{
		Rules: rules,
		About: "May commands of the agent connect to these domains?\n\n" + ruleList(rules) + "\n\nThe agent says why: " + reason,
	}
}

// ParseAccess reads a request for domains: the rules that would allow them, and what
// they are for.
func ParseAccess(arguments json.RawMessage) (allows []domain.NetworkRule, reason string, err error) {
	in, err := tools.Decode[accessArguments](arguments)
	if err != nil {
		return nil, "", err
	}

	for _, named := range in.Domains {
		rule, err := domain.NewNetworkRule(strings.TrimSpace(named), domain.PermissionAllow)
		if err != nil {
			return nil, "", err
		}

		allows = append(allows, rule)
	}

	return allows, tools.Clean(strings.TrimSpace(in.Reason)), nil
}

func accessSummary(arguments json.RawMessage) string {
	rules, _, err := ParseAccess(arguments)
	if err != nil {
		return ""
	}

	return ruleList(rules)
}

func ruleList(rules []domain.NetworkRule) string {
	names := make([]string, len(rules))
	for i, rule := range rules {
		names[i] = rule.String()
	}

	return strings.Join(names, ", ")
}

// AccessQuestion gives the arguments of the AskUserQuestion call that asks whether a call
// may connect to domains.
func AccessQuestion(callID string, access *tools.Access) json.RawMessage {
	asked, _ := json.Marshal(struct {
		Questions     []Question `json:"questions"`
		PermissionFor string     `json:"permission_for"`
	}{[]Question{{
		Question: access.About,
		Header:   domain.PermissionDisplayName,
		Options: []Option{
			{Label: domain.PermissionAllowSession, Description: "Allow them in this session."},
			{Label: domain.PermissionAllowAlways, Description: "Allow them in all sessions of yours, until you delete the network rules."},
			{
				Label:       domain.PermissionRefuse,
				Description: "The agent learns that it was denied. Text instead of an option denies it with that reason.",
			},
		},
	}}, callID})

	return asked
}

// run returns what holds now: a rule that denies a domain comes before the answer.
func (r requestAccess) run(ctx context.Context, c *tools.Call) (tools.Result, error) {
	rules, _, err := ParseAccess(c.Arguments)
	if err != nil {
		return tools.Result{}, err
	}

	policy, err := r.policies.NetworkPolicy(ctx, c.Session.ID)
	if err != nil {
		return *tools.Failed("The rules of the network could not be read."), err
	}

	var allowed, refused []domain.NetworkRule

	for _, rule := range rules {
		if policy.Grants(rule) {
			allowed = append(allowed, rule)
		} else {
			refused = append(refused, rule)
		}
	}

	var said []string
	if len(allowed) > 0 {
		said = append(said, "Allowed from now on: "+ruleList(allowed)+". Run the command again.")
	}

	if len(refused) > 0 {
		said = append(said, "Not allowed, because another rule denies it or there are too many rules: "+ruleList(refused)+".")
	}

	return tools.Result{Output: strings.Join(said, "\n"), IsError: len(refused) > 0}, nil
}
