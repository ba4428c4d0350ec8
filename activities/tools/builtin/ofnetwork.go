package builtin

import (
	"context"

	"everloop/activities/tools"
	"everloop/domain"
)

// OfNetwork withholds a tool from sessions without a network, and refuses its calls while
// there is none. The tool connects to a server that the operator has configured, so that
// the rules for domains do not concern it.
func OfNetwork(tool tools.Tool, d tools.Deps) tools.Tool {
	run := tool.Run
	tool.Withhold = withoutNetwork(d.Outbound)
	tool.Run = func(ctx context.Context, c *tools.Call) (tools.Result, error) {
		policy, err := d.Policies.NetworkPolicy(ctx, c.Session.ID)
		if err != nil {
			return *tools.Failed("The rules of the network could not be read."), err
		}

		if !policy.Mode.Open() {
			return *tools.Failed("Not carried out: this session has no network."), nil
		}

		return run(ctx, c)
	}

	return tool
}

// withoutNetwork withholds a tool from sessions without a network.
func withoutNetwork(service domain.NetworkMode) func(tools.Scope) string {
	return func(s tools.Scope) string {
		if service.Narrowed(s.Session.Setup.Network).Open() {
			return ""
		}

		return "this session has no network"
	}
}
