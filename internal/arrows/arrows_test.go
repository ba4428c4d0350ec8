// Package arrows holds the direction of the imports between packages: downwards
// in the tree that docs/architecture.md shows, and never up.
package arrows

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// allowed lists, for each package (with what lies below it), the packages of
// this module that it may import outside tests.
var allowed = map[string][]string{
	"domain":                       {},
	"internal/durable":             {},
	"activities/contract":          {"domain", "internal/durable"},
	"activities/tools":             {"domain"},
	"activities":                   {"domain", "activities/contract", "activities/tools", "internal/durable"},
	"workflows":                    {"domain", "activities/contract", "internal/durable"},
	"archive":                      {"domain"},
	"replay":                       {"archive", "domain"},
	"transfer":                     {"archive", "domain", "internal/safezip", "replay"},
	"infra/carry":                  {"domain", "infra/snapshots", "infra/workspace"},
	"worker":                       {"activities", "activities/contract", "internal/durable", "workflows"},
	"auth":                         {"domain"},
	"inbox":                        {"domain", "activities/contract", "activities/tools"},
	"history":                      {"domain"},
	"publish":                      {"domain"},
	"infra/appcopies":              {"domain", "infra/snapshots", "infra/workspace"},
	"infra/snapshots/workspaces":   {"domain", "history", "infra/snapshots"},
	"realtime/sio":                 {},
	"realtime":                     {"domain", "realtime/sio"},
	"api":                          {"domain", "auth", "realtime"},
	"infra/embedded":               {},
	"infra/events":                 {"domain"},
	"infra/mcp":                    {"domain", "activities/tools"},
	"infra/metrics":                {},
	"infra/model":                  {"domain"},
	"infra/objects":                {"domain"},
	"infra/postgres":               {"domain", "activities/contract", "internal/durable"},
	"infra/secrets":                {"domain"},
	"infra/solutions":              {"domain"},
	"infra/temporal":               {"domain", "activities/contract", "internal/durable"},
	"infra/tokens":                 {"domain"},
	"infra/sandbox":                {"infra/sandbox/forkserver"},
	"infra/web":                    {"domain", "activities/tools"},
	"infra/search":                 {"domain", "activities/tools"},
	"infra/langchain":              {"domain", "activities/tools"},
	"infra/workspace":              {"domain", "internal/rmtree"},
	"infra/workspace/sessionfiles": {"domain", "infra/workspace"},
	"infra/skills":                 {"domain", "infra/workspace", "internal/safezip", "internal/skillpack"},
	"internal/envtable":            {},
	"internal/safezip":             {},
	"internal/rmtree":              {},
	"internal/skillpack":           {"internal/safezip"},
	"infra/toolbox":                {"domain", "activities/tools", "infra/mcp", "infra/sandbox", "infra/workspace"},
	"infra/snapshots":              {"domain", "internal/rmtree"},
	"companions/mock":              {},
	"terminal":                     {},
	"terminal/doctor":              {"domain", "infra/model", "infra/sandbox"},
}

func TestPackagesImportOnlyDownwards(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "everloop/...").Output()
	require.NoError(t, err)
	decoder := json.NewDecoder(bytes.NewReader(out))
	seen := map[string]bool{}
	for {
		var pkg struct {
			ImportPath string
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
