// Package arrows holds the direction of the imports between packages: downwards
// in the tree that docs/architecture.md shows, and never up.
package arrows

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// allowed lists, for each package (with what lies below it), the packages of
// this module that it may import outside tests.
var allowed = map[string][]string{
	"domain":                  {},
	"domain/chat":             {"domain"},
	"domain/permission":       {"domain"},
	"domain/history":          {"domain", "domain/chat"},
	"internal/durable":        {},
	"activities/contract":     {"domain", "domain/history", "internal/durable"},
	"activities/tools":        {"domain", "domain/permission"},
	"activities/tools/agents": {"domain", "activities/tools"},
	"activities/tools/builtin": {
		"domain", "activities/tools", "activities/tools/agents", "activities/tools/commands", "activities/tools/questions",
		"activities/tools/search",
	},
	"activities/tools/commands":  {"domain", "activities/tools"},
	"activities/tools/questions": {"domain", "activities/tools"},
	"activities/tools/search":    {"domain", "activities/tools"},
	"activities/tools/toolstest": {"domain", "activities/tools", "infra/sandbox"},
	"activities/background": {
		"domain", "domain/dagrun", "domain/history", "activities/contract", "activities/tools", "activities/tools/commands",
		"activities/tools/search", "internal/durable", "internal/retry",
	},
	"activities/prompt": {"domain"},
	"activities/stream": {"domain", "internal/retry"},
	"activities": {
		"domain",
		"domain/permission",
		"activities/contract",
		"activities/prompt",
		"activities/stream",
		"activities/tools",
		"activities/tools/agents",
		"activities/tools/commands",
		"activities/tools/questions",
		"activities/tools/search",
		"internal/durable",
		"internal/retry",
	},
	"workflows":            {"domain", "domain/history", "activities/contract", "internal/durable"},
	"service/eventarchive": {"domain"},
	"service/replay":       {"service/eventarchive", "domain"},
	"service/transfer":     {"service/eventarchive", "domain", "internal/fencing", "internal/safezip", "service/replay"},
	"service/files": {
		"domain",
		"domain/history",
		"infra/snapshots",
		"infra/workspace",
		"internal/diskspace",
		"service/apps",
		"service/history",
	},
	"worker":              {"activities", "activities/background", "activities/contract", "internal/durable", "workflows"},
	"auth":                {"domain"},
	"service/chat":        {"domain", "activities/tools/questions"},
	"service/compute":     {"domain"},
	"service/history":     {"domain", "domain/history", "internal/fencing"},
	"service/apps":        {"domain"},
	"service/tasks":       {"domain", "activities/contract", "activities/tools", "activities/tools/commands", "internal/retry"},
	"service/maintenance": {"domain", "domain/history", "activities/contract", "domain/dagrun", "internal/durable", "internal/retry"},
	"realtime/sio":        {},
	"chatrequest":         {"domain"},
	"realtime":            {"auth", "chatrequest", "domain", "realtime/sio"},
	"api": {
		"domain", "auth", "chatrequest", "api/access", "api/account", "api/fields", "api/files", "api/httpx", "api/library", "api/openapi",
		"api/production", "api/session", "api/sessiondetail", "internal/hosts", "internal/clients",
	},
	"api/access":  {"domain", "auth", "api/httpx"},
	"api/account": {"domain", "auth", "api/access", "api/fields", "api/httpx", "api/sessiondetail"},
	"api/fields":  {"domain", "api/httpx"},
	"api/files":   {"domain", "auth", "api/access", "api/fields", "api/httpx"},
	"api/library": {"domain", "auth", "api/access", "api/fields", "api/httpx", "api/sessiondetail"},
	"api/production": {
		"domain", "auth", "api/access", "api/fields", "api/httpx", "api/sessiondetail", "domain/architecture", "domain/dag",
		"domain/dagrun",
	},
	"api/session": {
		"domain",
		"domain/history",
		"auth",
		"chatrequest",
		"api/access",
		"api/fields",
		"api/httpx",
		"api/sessiondetail",
		"realtime",
	},
	"api/sessiondetail": {"domain", "api/access", "api/fields", "api/httpx"},
	"api/openapi":       {"domain", "auth", "api/httpx"},
	"api/httpx":         {"domain", "auth", "internal/clients", "internal/hosts"},
	"infra/backup":      {"internal/release"},
	"infra/browser":     {"domain"},
	"infra/egress":      {"domain", "infra/netguard"},
	"infra/embedded":    {"internal/clients", "internal/hosts", "internal/pgprograms"},
	"infra/events":      {"domain"},
	"infra/external":    {"domain", "internal/pgprograms"},
	"infra/mcp":         {"domain", "activities/tools", "infra/netguard"},
	"infra/metrics":     {},
	"infra/model":       {"domain"},
	"infra/objects":     {"domain"},
	"infra/postgres": {
		"infra/postgres/accounts", "infra/postgres/catalog", "infra/postgres/conversation",
		"infra/postgres/history", "infra/postgres/pg", "infra/postgres/sessions",
		"infra/postgres/transcript", "infra/postgres/transfer", "infra/postgres/production",
		"infra/postgres/schedules", "infra/postgres/agents", "infra/postgres/webhooks",
		"infra/postgres/dagruns", "infra/postgres/board", "infra/postgres/operator",
	},
	"infra/postgres/operator": {"domain", "infra/postgres/pg", "infra/postgres/sessions"},
	"service/operator":        {"domain", "domain/history", "internal/durable"},
	"infra/postgres/accounts": {"domain", "infra/postgres/pg"},
	"infra/postgres/catalog":  {"domain", "infra/postgres/pg"},
	"infra/postgres/conversation": {
		"domain", "domain/chat", "domain/history", "activities/contract", "internal/durable", "infra/postgres/accounts",
		"infra/postgres/pg", "infra/postgres/sessions", "infra/postgres/webhooks",
	},
	"infra/postgres/transcript": {
		"domain", "domain/chat", "infra/postgres/conversation", "infra/postgres/pg",
		"infra/postgres/sessions",
	},
	"infra/postgres/history": {
		"domain", "domain/chat", "domain/history", "infra/postgres/conversation", "infra/postgres/pg",
		"infra/postgres/sessions", "infra/postgres/transcript",
	},
	"infra/postgres/transfer": {
		"domain", "internal/durable", "infra/postgres/conversation", "infra/postgres/pg",
		"infra/postgres/sessions", "infra/postgres/transcript",
	},
	"infra/postgres/pg":            {"domain"},
	"infra/postgres/sessions":      {"domain", "domain/chat", "domain/history", "activities/contract", "infra/postgres/pg"},
	"infra/postgres/pgtest":        {"domain", "activities/contract", "infra/postgres", "internal/testkit"},
	"infra/secrets":                {"domain"},
	"infra/solutions":              {"domain"},
	"infra/temporal":               {"domain", "domain/history", "activities/contract", "internal/durable"},
	"infra/tokens":                 {"domain"},
	"infra/tracing":                {},
	"infra/sandbox":                {"infra/sandbox/forkserver", "internal/diskspace"},
	"infra/netguard":               {},
	"infra/web":                    {"domain", "activities/tools", "infra/netguard"},
	"infra/search":                 {"domain", "activities/tools"},
	"infra/langchain":              {"domain", "activities/tools"},
	"infra/workspace":              {"domain", "internal/diskspace", "internal/rmtree", "internal/sharedfs"},
	"infra/workspace/sessionfiles": {"domain", "infra/workspace"},
	"service/skills": {
		"domain", "infra/skillregistry", "infra/workspace", "internal/safezip", "internal/sharedfs",
		"internal/skillpack",
	},
	"infra/skillregistry":  {"domain", "internal/safezip"},
	"internal/buildid":     {},
	"internal/clients":     {},
	"internal/diskspace":   {},
	"internal/eventschema": {"domain", "api/openapi"},
	"internal/envtable":    {},
	"internal/fencing":     {},
	"internal/hosts":       {},
	"internal/lifecycle":   {},
	"internal/memlimit":    {},
	"internal/pgprograms":  {},
	"internal/safezip":     {},
	"internal/retry":       {},
	"internal/rmtree":      {},
	"internal/sharedfs":    {},
	"internal/skillpack":   {"internal/safezip"},
	"internal/specified":   {},
	"infra/toolbox": {
		"domain", "activities/tools", "infra/egress", "infra/mcp", "infra/sandbox", "infra/workspace",
		"internal/diskspace",
	},
	"infra/snapshots": {"domain", "internal/rmtree", "internal/sharedfs", "internal/diskspace"},
	"companions/mock": {"companions/edge", "internal/clients", "internal/hosts", "internal/release"},
	"companions/gateway": {
		"companions/credentials", "companions/edge", "companions/gateway/dialect", "companions/gateway/localserver",
		"infra/netguard", "internal/clients", "internal/hosts", "internal/release",
	},
	"companions/gateway/dialect":                     {},
	"companions/gateway/localserver":                 {},
	"companions/gateway/localserver/localservertest": {},

	"cmd/everloop":       {"internal/app", "internal/memlimit", "internal/release", "internal/sbom", "terminal"},
	"internal/app/flags": {"infra/secrets", "internal/clients", "internal/diskspace", "internal/hosts"},
	"internal/app/engine": {
		"auth", "domain", "infra/embedded", "infra/events", "infra/external", "infra/metrics", "infra/objects",
		"infra/postgres", "infra/secrets", "infra/temporal", "infra/tracing", "internal/app/flags", "terminal/doctor",
	},
	"internal/app/companion": {
		"companions/credentials", "companions/desktop", "companions/edge", "companions/gateway", "companions/githost",
		"companions/identity", "companions/identity/openid", "companions/identity/upstream", "companions/mock",
		"companions/registry", "infra/secrets", "internal/app/engine", "internal/app/flags", "internal/hosts",
		"internal/lifecycle", "web",
	},
	"internal/app/backup": {
		"companions/identity", "companions/registry", "companions/schema", "infra/backup", "infra/embedded",
		"infra/postgres", "infra/secrets", "infra/temporal", "internal/app/companion", "internal/app/engine",
		"internal/app/flags",
	},
	"internal/sbom":          {},
	"internal/release":       {},
	"terminal/components":    {"internal/release"},
	"terminal":               {},
	"companions/edge":        {"internal/clients", "internal/hosts", "internal/release"},
	"companions/desktop":     {"companions/edge", "internal/hosts"},
	"web":                    {},
	"companions/credentials": {"companions/edge", "internal/clients"},
	"companions/registry": {
		"companions/credentials", "companions/edge", "companions/schema", "internal/clients", "internal/hosts", "internal/safezip",
		"internal/skillpack",
	},
	"companions/githost": {
		"companions/credentials", "companions/edge", "companions/githost/hook", "internal/clients", "internal/hosts", "internal/safezip",
		"internal/skillpack",
	},
	"companions/githost/hook": {},
	"companions/identity": {
		"companions/edge", "companions/identity/accounts", "companions/identity/openid", "companions/identity/pages",
		"companions/identity/passkeys", "companions/identity/passwords", "companions/identity/tokens", "companions/identity/totp",
		"companions/identity/upstream", "companions/schema", "infra/secrets", "internal/clients", "internal/hosts",
	},
	"companions/identity/accounts":  {},
	"companions/identity/passwords": {"companions/edge"},
	"companions/identity/tokens":    {"companions/identity/accounts", "infra/secrets"},
	"companions/identity/openid": {
		"companions/edge", "companions/identity/accounts", "companions/identity/tokens", "infra/secrets",
	},
	"companions/identity/pages":    {},
	"companions/identity/passkeys": {},
	"companions/identity/totp":     {},
	"companions/identity/upstream": {},
	"companions/schema":            {},
	"infra/identity":               {"auth", "domain"},
	"terminal/doctor": {
		"domain", "infra/browser", "infra/external", "infra/model", "infra/sandbox", "internal/diskspace",
		"internal/pgprograms", "internal/sharedfs",
	},
	"domain/document":           {"domain"},
	"domain/dag":                {"domain", "domain/document", "domain/expression"},
	"domain/architecture":       {"domain", "domain/document"},
	"infra/postgres/production": {"domain", "infra/postgres/dagruns", "infra/postgres/pg"},
	"service/production":        {"domain", "domain/architecture", "domain/dag", "domain/document"},
	"domain/cron":               {},
	"service/schedules":         {"domain", "domain/cron", "internal/durable"},
	"infra/postgres/schedules": {
		"domain", "domain/cron", "infra/postgres/pg", "infra/postgres/webhooks", "infra/postgres/sessions",
	},
	"infra/postgres/agents":   {"domain", "infra/postgres/pg"},
	"service/agents":          {"domain"},
	"infra/postgres/webhooks": {"domain", "infra/postgres/pg"},
	"infra/webhooks":          {"domain", "infra/netguard"},
	"service/webhooks":        {"domain"},
	"domain/dagrun":           {"domain", "domain/dag", "domain/document", "domain/expression"},
	"service/dagruns":         {"domain", "domain/dag", "domain/dagrun", "internal/durable"},
	"infra/postgres/dagruns":  {"domain", "domain/dag", "domain/dagrun", "infra/postgres/pg", "infra/postgres/webhooks"},
	"infra/postgres/board":    {"domain", "infra/postgres/pg", "infra/postgres/webhooks"},
	"service/board":           {"domain", "internal/durable", "service/agents"},
}

// roots may import anything: what wires the roles, tests the whole or builds.
var roots = []string{"build", "internal/app", "internal/systemtest", "internal/testkit"}

// row is a row of a table of docs/architecture.md: a package, and what it may import.
var row = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| .+ \\| ([^|]+) \\|$")

var name = regexp.MustCompile("`([^`]+)`")

// TestArchitecture_showsTheRules compares the tree of docs/architecture.md with allowed.
func TestArchitecture_showsTheRules(t *testing.T) {
	t.Parallel()

	page, err := os.ReadFile("../../docs/architecture.md")
	require.NoError(t, err)

	_, tree, found := strings.Cut(string(page), "\n## The tree\n")
	require.True(t, found)

	shown := map[string][]string{}

	for _, r := range row.FindAllStringSubmatch(tree, -1) {
		shown[r[1]] = []string{}
		for _, imported := range name.FindAllStringSubmatch(r[2], -1) {
			shown[r[1]] = append(shown[r[1]], imported[1])
		}
	}

	for rule, list := range allowed {
		require.Contains(t, shown, rule, "add a row to docs/architecture.md")
		require.ElementsMatch(t, list, shown[rule], "what %s may import, and its row in docs/architecture.md", rule)
	}

	for rule := range shown {
		require.Contains(t, allowed, rule, "docs/architecture.md has a row without a rule")
	}
}

func TestPackagesImportOnlyDownwards(t *testing.T) {
	t.Parallel()

	out, err := exec.Command("go", "list", "-json=ImportPath,GoFiles,Imports", "everloop/...").Output()
	require.NoError(t, err)

	decoder := json.NewDecoder(bytes.NewReader(out))
	seen := map[string]bool{}

	for {
		var pkg struct {
			ImportPath string
			GoFiles    []string
			Imports    []string
		}

		err := decoder.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			break
		}

		require.NoError(t, err)

		name := strings.TrimPrefix(pkg.ImportPath, "everloop/")

		rule, found := ruleFor(name)
		if !found {
			isRoot := slices.ContainsFunc(roots, func(root string) bool { return name == root || strings.HasPrefix(name, root+"/") })
			if !isRoot && len(pkg.GoFiles) > 0 { // one with tests alone imports nothing
				t.Errorf("%s has no rule: add one here and a row to docs/architecture.md", name)
			}

			continue
		}

		seen[rule] = true

		for _, imported := range pkg.Imports {
			target, ours := strings.CutPrefix(imported, "everloop/")
			if !ours || target == rule || strings.HasPrefix(target, rule+"/") && !hasRule(target) {
				continue
			}

			if !permits(allowed[rule], target) {
				t.Errorf("%s imports %s, which its place in the tree does not allow", name, target)
			}
		}
	}

	for rule := range allowed {
		if !seen[rule] {
			t.Errorf("there is a rule for %s, but no such package", rule)
		}
	}
}

// ruleFor finds the closest rule for a package.
func ruleFor(name string) (string, bool) {
	for ; name != ""; name = parent(name) {
		if hasRule(name) {
			return name, true
		}
	}

	return "", false
}

func hasRule(name string) bool {
	_, found := allowed[name]
	return found
}

func parent(name string) string {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return ""
	}

	return name[:i]
}

func permits(list []string, target string) bool {
	for ; target != ""; target = parent(target) {
		for _, entry := range list {
			if entry == target {
				return true
			}
		}

		if hasRule(target) {
			return false
		}
	}

	return false
}
