package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
)

// minPostgresMajor is the oldest PostgreSQL that Everloop is tested with.
const minPostgresMajor = 15

// postgresInstall tells an operator how to mend a missing PostgreSQL.
const postgresInstall = "install it (Debian, Ubuntu: apt-get install postgresql; Fedora, RHEL: dnf install postgresql-server; " +
	"Alpine: apk add postgresql; macOS: brew install postgresql@17), " +
	"or set DATABASE_URL to use a running server"

// postgresInstallation is a directory with the server's programs.
type postgresInstallation struct {
	binDir string
	major  int
}

// postgresPlaces lists, as glob patterns, where distributions put the programs.
// None of them but the first is on the PATH of an ordinary shell.
var postgresPlaces = []string{
	"/usr/lib/postgresql/*/bin",                          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                                   // packages of postgresql.org for RHEL
	"/usr/libexec/postgresql*",                           // Alpine
	"/usr/local/pgsql/bin",                               // built from source
	"/opt/homebrew/opt/postgresql@*/bin",                 // Homebrew on Apple silicon
	"/usr/local/opt/postgresql@*/bin",                    // Homebrew on Intel
	"/Applications/Postgres.app/Contents/Versions/*/bin", // Postgres.app
	"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",    // Homebrew on Linux
}

// findPostgres chooses an installation: the configured directory and nothing else
// when one is given; else the one on PATH; else the newest in the usual places.
// A cluster of major version wantMajor (0: none yet) can only be served by its own.
func findPostgres(ctx context.Context, configured string, wantMajor int) (postgresInstallation, error) {
	fits := func(found postgresInstallation) bool {
		if wantMajor != 0 {
			return found.major == wantMajor
		}
		return found.major >= minPostgresMajor
	}
	if configured != "" {
		found, err := inspectPostgres(ctx, configured)
		if err != nil {
			return found, fmt.Errorf("configured PostgreSQL directory %s: %w", configured, err)
		}
		if !fits(found) {
			return found, wrongMajor(wantMajor, []int{found.major})
		}
		return found, nil
	}

	var seen []int
	var faults []error
	for _, dir := range postgresCandidates() {
		found, err := inspectPostgres(ctx, dir)
		if errors.Is(err, errNoProgram) {
			continue
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("PostgreSQL in %s cannot be used: %w", dir, err))
			continue
		}
		if fits(found) {
			return found, nil
		}
		seen = append(seen, found.major)
	}
	if len(seen) > 0 {
		return postgresInstallation{}, wrongMajor(wantMajor, seen)
	}
	if len(faults) > 0 {
		return postgresInstallation{}, errors.Join(faults...)
	}
	return postgresInstallation{}, fmt.Errorf("PostgreSQL %d or newer is not installed: %s", minPostgresMajor, postgresInstall)
}

func wrongMajor(want int, seen []int) error {
	if want == 0 {
		return fmt.Errorf("found PostgreSQL %v, but %d or newer is needed: %s", seen, minPostgresMajor, postgresInstall)
	}
	return fmt.Errorf("the data was written by PostgreSQL %d and only that version can open it, but PostgreSQL %v was found: "+
		"install version %d, or move the data with pg_dump (it was left untouched)", want, seen, want)
}

// postgresCandidates returns the directories to try, the preferred one first.
func postgresCandidates() []string {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		// The server finds its share directory relative to the real program.
		if real, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	for _, pattern := range postgresPlaces {
		matches, _ := filepath.Glob(pattern)
		sort.Slice(matches, func(i, j int) bool { return versionIn(matches[i]) > versionIn(matches[j]) })
		dirs = append(dirs, matches...)
	}
	return dirs
}

var number = regexp.MustCompile(`[0-9]+`)

// versionIn reads the first number in a path, 0 when there is none.
func versionIn(path string) int {
	n, _ := strconv.Atoi(number.FindString(path))
	return n
}

// errNoProgram says that a directory is no installation at all.
var errNoProgram = errors.New("it has no program named")

// inspectPostgres checks that dir holds the programs and asks for their version.
func inspectPostgres(ctx context.Context, dir string) (postgresInstallation, error) {
	real, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
	if err != nil {
		return postgresInstallation{}, fmt.Errorf("%w postgres", errNoProgram)
	}
	dir = filepath.Dir(real)
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return postgresInstallation{}, fmt.Errorf("%w initdb", errNoProgram)
	}
	out, err := exec.CommandContext(ctx, real, "--version").Output()
	if err != nil {
		return postgresInstallation{}, fmt.Errorf("run postgres --version: %w", err)
	}
	major := versionIn(string(out))
	if major == 0 {
		return postgresInstallation{}, fmt.Errorf("cannot read a version from %q", out)
	}
	return postgresInstallation{binDir: dir, major: major}, nil
}
