package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"everloop/internal/pgprograms"
)

// EmbeddedPostgres checks the requirements of the embedded PostgreSQL: its programs, and a
// non-root account.
func EmbeddedPostgres(ctx context.Context, dataDir, binDir string) []Check {
	checks := postgresPrograms(ctx, dataDir, binDir)
	if os.Geteuid() == 0 && !known("postgres") && !known("nobody") {
		checks = append(checks, Check{
			Name: "PostgreSQL user", State: Fail, Detail: "PostgreSQL refuses to run as root, and there is no user postgres or nobody",
			Hint: "useradd --system postgres, or start Everloop as an ordinary user",
		})
	}

	return checks
}

func known(name string) bool {
	_, err := user.Lookup(name)
	return err == nil
}

// postgresPrograms checks for programs of a version that can open the existing data.
func postgresPrograms(ctx context.Context, dataDir, binDir string) []Check {
	const name = "PostgreSQL"

	want := 0
	if content, err := os.ReadFile(filepath.Join(dataDir, "postgres", "data", "PG_VERSION")); err == nil {
		want, _ = strconv.Atoi(strings.TrimSpace(string(content)))
	}

	found, err := pgprograms.Find(ctx, binDir, want)
	if missing, ok := errors.AsType[*pgprograms.MissingError](err); ok {
		return one(name, Fail, missing.Detail, missing.Hint)
	}

	if err != nil {
		return one(name, Fail, err.Error(), "correct --postgres-bin-dir, or leave it out")
	}

	return one(name, OK, fmt.Sprintf("version %d in %s (embedded)", found.Major, found.BinDir), "")
}
