package helm

import (
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// peer returns a peer of a NetworkPolicy in the values: the pods of an app.
func peer(app string) map[string]any {
	return map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"app": app}}}
}

// end is one end of a connection: a pod by its labels, or an address outside of the cluster.
type end struct {
	labels  map[string]string
	address string
}

func (e end) is(peers []networkingv1.NetworkPolicyPeer) bool {
	return len(peers) == 0 || slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
		if p.IPBlock == nil {
			want := p.PodSelector.MatchLabels
			return e.labels != nil && maps.Equal(want, subset(e.labels, want))
		}

		within := func(cidr string) bool { return netip.MustParsePrefix(cidr).Contains(netip.MustParseAddr(e.address)) }

		return e.address != "" && within(p.IPBlock.CIDR) && !slices.ContainsFunc(p.IPBlock.Except, within)
	})
}

func opens(ports []networkingv1.NetworkPolicyPort, port int) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
		return p.Port.IntValue() == port && (p.Protocol == nil || *p.Protocol == corev1.ProtocolTCP)
	})
}

// network judges connections by policies, as a cluster does: a pod that any policy selects
// has what one of them allows.
type network []networkingv1.NetworkPolicy

func (n network) allows(from, to end, port int) bool {
	return n.judge(from, func(p networkingv1.NetworkPolicySpec) bool {
		return slices.ContainsFunc(
			p.Egress,
			func(r networkingv1.NetworkPolicyEgressRule) bool { return to.is(r.To) && opens(r.Ports, port) },
		)
	}) && n.judge(to, func(p networkingv1.NetworkPolicySpec) bool {
		return slices.ContainsFunc(p.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool {
			return from.is(r.From) && opens(r.Ports, port)
		})
	})
}

func (n network) judge(pod end, allows func(networkingv1.NetworkPolicySpec) bool) bool {
	selected := false

	for _, p := range n {
		if pod.labels != nil && maps.Equal(p.Spec.PodSelector.MatchLabels, subset(pod.labels, p.Spec.PodSelector.MatchLabels)) {
			if selected = true; allows(p.Spec) {
				return true
			}
		}
	}

	return !selected
}

// pods returns the labels of the pods of a variant, by role.
func pods(o objects) map[string]end {
	found := map[string]end{"migrate": {labels: o.jobs[0].Spec.Template.Labels}}
	for _, d := range o.deployments {
		found[strings.TrimPrefix(d.Name, "demo-")] = end{labels: d.Spec.Template.Labels}
	}

	return found
}

var rolePorts = map[string]int{
	"api": 8020, "worker": 8021, "identity": 19000, "registry": 8010, "desktop": 8080, "gateway": 29999, "git": 30030, "mock": 30023,
}

func TestChart_networkPolicies(t *testing.T) {
	t.Parallel()

	o := decoded(t, variants()["everything"])
	n, roles := network(o.policies), pods(o)
	require.Len(t, n, len(roles)+1)

	outside, private, metadata := end{address: "203.0.113.1"}, end{address: "10.1.2.3"}, end{address: "169.254.169.254"}
	unrelated := end{labels: map[string]string{"app": "unrelated"}}

	reaches := map[string][]string{
		"api":       {"identity", "registry", "gateway", "git", "postgres", "temporal", "nats", "s3", "outside", "collector"},
		"worker":    {"identity", "registry", "gateway", "git", "postgres", "temporal", "nats", "s3", "outside", "collector"},
		"identity":  {"api", "postgres", "outside"},
		"registry":  {"api", "postgres", "s3"},
		"desktop":   {"api", "identity"},
		"gateway":   {"api", "mock", "outside", "vllm"},
		"git":       {"api", "registry"},
		"migrate":   {"postgres"},
		"mock":      {},
		"ingress":   {"api", "identity", "registry", "desktop", "gateway", "git"}, // whose own egress is not the chart's
		"unrelated": {}, "prometheus": {"worker"}, "outside": {},
	}

	app := func(name string) end { return end{labels: map[string]string{"app": name}} }
	targets := map[string]end{
		"postgres": app("postgres"), "temporal": app("temporal"), "nats": app("nats"), "s3": app("s3"), "collector": app("collector"),
		"vllm": app("vllm"), "outside": outside, "private address": private, "metadata": metadata, "unrelated": unrelated,
		"IPv6 private": {address: "fd00::1"},
	}
	ports := map[string]int{
		"postgres": 6432, "temporal": 7233, "nats": 4222, "s3": 443, "outside": 443, "private address": 80, "metadata": 80, "unrelated": 80,
		"collector": 4318, "vllm": 8000, "IPv6 private": 80,
	}
	sources := map[string]end{"ingress": app("ingress"), "prometheus": app("prometheus"), "unrelated": unrelated, "outside": outside}

	maps.Copy(ports, rolePorts)
	maps.Copy(targets, roles)
	delete(targets, "migrate")
	maps.Copy(sources, roles)

	for from, source := range sources {
		for to, target := range targets {
			if from == to || roles[from].labels == nil && roles[to].labels == nil {
				continue // connections between others are not the chart's
			}

			require.Equal(t, slices.Contains(reaches[from], to), n.allows(source, target, ports[to]), "%s to %s", from, to)
		}
	}

	require.False(t, n.allows(roles["worker"], roles["gateway"], 22), "another port of a service")
	require.False(t, n.allows(roles["worker"], app("postgres"), 22), "another port of an engine")
}

// What the variables of a pod name, it reaches.
func TestChart_networkPolicies_followSettings(t *testing.T) {
	t.Parallel()

	for name, values := range variants() {
		o := decoded(t, values)
		n, roles := network(o.policies), pods(o)

		for _, d := range o.deployments {
			for _, variable := range d.Spec.Template.Spec.Containers[0].Env {
				address, err := url.Parse(variable.Value)
				if err != nil || !strings.HasSuffix(variable.Name, "_URL") || address.Port() == "" {
					continue
				}

				port, err := strconv.Atoi(address.Port())
				require.NoError(t, err)

				role, own := strings.CutPrefix(address.Hostname(), "demo-")
				target := end{labels: map[string]string{"app": role}}

				if own {
					target = roles[role]
					port = rolePorts[role]
				}

				if own && target.labels == nil {
					continue // the variant has no such pod
				}

				source := roles[strings.TrimPrefix(d.Name, "demo-")]
				require.True(t, n.allows(source, target, port), "%s: %s: %s=%s", name, d.Name, variable.Name, variable.Value)
			}
		}
	}

	require.Empty(t, decoded(t, with(map[string]any{"networkPolicy": map[string]any{"enabled": false}})).policies)
}
