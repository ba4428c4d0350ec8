package doccheck_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// auditUse finds the actions of the audit trail: of an operation, as a constant, and
// as an argument of what writes a record.
var auditUse = regexp.MustCompile(
	`Audit:\s+"([a-z_]+\.[a-z_]+)"|Action\w+\s+= "([a-z_]+\.[a-z_]+)"|` +
		`(?:Record|Write)\([^"\n]*"([a-z_]+\.[a-z_]+)"|\w+Changed\(ctx, "([a-z_]+\.[a-z_]+)"|` +
		`Audit:\s+"prod_" \+ string\(kind\) \+ "(\.[a-z_]+)"`)

var action = regexp.MustCompile(`^[a-z_]+\.[a-z_]+$`)

// TestAuditTrail_listsEveryAction compares the table of docs/rest.md with the actions
// that the code records, in both directions.
func TestAuditTrail_listsEveryAction(t *testing.T) {
	t.Parallel()

	recorded := map[string]bool{}

	for _, source := range goSources(t, "api", "auth", "realtime", "service/accounts") {
		for _, found := range auditUse.FindAllStringSubmatch(read(t, source), -1) {
			if kind := found[len(found)-1]; kind != "" { // "prod_" + string(kind) + kind, of both documents
				recorded["prod_dag"+kind], recorded["prod_architecture"+kind] = true, true
				continue
			}

			recorded[strings.Join(found[1:], "")] = true
		}
	}

	require.Greater(t, len(recorded), 50)

	_, section, found := strings.Cut(read(t, "docs/rest.md"), "\n### Audit trail\n")
	require.True(t, found)

	section, _, _ = strings.Cut(section, "\n## ")
	listed := map[string]bool{}

	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) == 5 {
			for _, name := range quoted.FindAllStringSubmatch(cells[1], -1) {
				if action.MatchString(name[1]) {
					listed[name[1]] = true
				}
			}
		}
	}

	require.Equal(t, slices.Sorted(maps.Keys(recorded)), slices.Sorted(maps.Keys(listed)),
		"compare the actions of the audit trail with the table of docs/rest.md")
}
