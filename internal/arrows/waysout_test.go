package arrows

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// waysOut lists every file that opens connections, and what decides where they go. A new way
// out is listed with the test of its policy (docs/network.md), or as a connection to a server
// that the operator configures.
var waysOut = map[string]string{
	"infra/egress/dial.go":   "network policy: TestProxy_refusalsByRule, TestProxy_closesWhatIsNoLongerAllowed",
	"infra/egress/egress.go": "network policy: TestProxy_CONNECT, TestProxy_SOCKS5, TestProxy_plainHTTP",
	"infra/egress/http.go":   "network policy: through the transport of egress.go",
	"infra/web/web.go":       "network policy: TestWebTools_followNetworkPolicy, TestClient_Picture_asksAboutEachHop",
	"infra/mcp/guard.go":     "network policy: TestManager_followsNetworkPolicy; guard: TestGuard_Transport_refusesWhatWebFetchRefuses",
	"infra/mcp/http.go":      "guard: the transport of guard.go, for the host of the server alone",

	"infra/webhooks/sender.go":                 "guard: the addresses that users configure for webhooks",
	"infra/search/search.go":                   "operator: SEARCH_URL; network none: TestWebTools_withheldWithoutNetwork",
	"infra/identity/client.go":                 "operator: IDENTITY_URL",
	"infra/model/client.go":                    "operator: LLM_GATEWAY_URL",
	"infra/skillregistry/client.go":            "operator: REGISTRY_URL",
	"infra/embedded/objects.go":                "operator: the embedded engines",
	"companions/credentials/credentials.go":    "operator: AGENT_URL",
	"companions/desktop/forward.go":            "operator: the services behind the desktop",
	"companions/gateway/localserver/server.go": "operator: the model servers that the gateway starts",
	"companions/gateway/source.go":             "operator: the sources of the gateway",
	"companions/githost/registry.go":           "operator: REGISTRY_URL",
	"companions/identity/callers.go":           "operator: AGENT_URL",
	"companions/identity/upstream/flow.go":     "operator: OAUTH_CONFIG_YAML_PATH",
	"terminal/client.go":                       "client: the service that the user names",
	"terminal/components/components.go":        "client: doctor",
	"terminal/doctor/ports.go":                 "client: doctor",
	"internal/app/webtools.go":                 "none: checks settings without a request",
	"internal/app/diagnostics.go":              "operator: the checks of doctor",
	"internal/app/network.go":                  "guard: of infra/egress",
	"internal/app/toolservers.go":              "guard: of infra/mcp",
	"internal/app/webhooks.go":                 "guard: of infra/webhooks",
}

var connects = regexp.MustCompile(
	`net\.Dialer\{|net\.Dial(Timeout)?\(|tls\.Dial\(|http\.(Client|Transport)\{|http\.Default(Client|Transport)\b|` +
		`http\.(Get|Head|Post|PostForm)\(|netguard\.New\(|guardWithoutPaths\(|httputil\.ReverseProxy\{`,
)

func TestWaysOut_areListed(t *testing.T) {
	t.Parallel()

	found := map[string]bool{}

	for _, top := range []string{
		"activities", "api", "auth", "cmd", "companions", "domain", "infra", "internal", "realtime", "service",
		"terminal", "worker", "workflows", "chatrequest",
	} {
		err := filepath.WalkDir(filepath.Join("../..", top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}

			name := filepath.ToSlash(strings.TrimPrefix(path, filepath.Clean("../..")+string(filepath.Separator)))
			if strings.HasPrefix(name, "internal/testkit/") || strings.HasSuffix(filepath.Dir(name), "test") {
				return nil
			}

			text, err := os.ReadFile(path)
			if connects.Match(text) {
				found[name] = true
			}

			return err
		})
		require.NoError(t, err)
	}

	for name := range found {
		assert.NotEmpty(t, waysOut[name], "%s opens connections and is not listed: which policy holds it?", name)
	}

	for name := range waysOut {
		assert.True(t, found[name], "%s opens no connections any more", name)
	}
}
