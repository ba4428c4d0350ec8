package doccheck_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	createTable = regexp.MustCompile(`(?m)^\s*CREATE TABLE (?:IF NOT EXISTS )?([\w.]+)`)
	dropTable   = regexp.MustCompile(`(?m)^\s*DROP TABLE (?:IF EXISTS )?([\w.]+)`)
)

// TestOperations_everyTableHasAnEnd holds the page that says how each table ends to the
// migrations: a new table must be added to it, and a removed one taken out.
func TestOperations_everyTableHasAnEnd(t *testing.T) {
	t.Parallel()

	files, err := filepath.Glob(filepath.Join(root, "infra/postgres/migrations/*.sql"))
	require.NoError(t, err)
	companions, err := filepath.Glob(filepath.Join(root, "companions/*/migrations/*.sql"))
	require.NoError(t, err)
	require.NotEmpty(t, companions)

	tables := map[string]bool{}

	for _, file := range append(files, companions...) {
		content, err := os.ReadFile(file)
		require.NoError(t, err)

		up, _, _ := strings.Cut(string(content), "-- +goose Down")
		for _, made := range createTable.FindAllStringSubmatch(up, -1) {
			tables[made[1]] = true
		}

		for _, dropped := range dropTable.FindAllStringSubmatch(up, -1) {
			delete(tables, dropped[1])
		}
	}

	require.Greater(t, len(tables), 50)

	_, section, found := strings.Cut(read(t, "docs/operators/disk.md"), "\n## What grows\n")
	require.True(t, found)

	section, _, _ = strings.Cut(section, "| Elsewhere | Ends |")
	named := map[string]bool{}

	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) == 4 {
			for _, name := range quoted.FindAllStringSubmatch(cells[1], -1) {
				table, _, of := strings.Cut(name[1], ".") // of a column
				if of && tables[name[1]] {
					table = name[1] // of a companion, with its schema
				}

				named[table] = true
			}
		}
	}

	require.Equal(t, tables, named, "say in docs/operators/disk.md (What grows) when the rows of each table end")
}
