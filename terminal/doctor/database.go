package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	leastMajor  = 15              // of PostgreSQL
	clockSpread = 5 * time.Second // how far the clocks of two machines may differ
)

func postgres(ctx context.Context, s Settings) []Check {
	if s.DatabaseURL != "" {
		return databaseServer(ctx, s.DatabaseURL)
	}
	checks := postgresPrograms(ctx, s)
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

// databaseServer asks the configured server. The address is never repeated: it
// holds a password.
func databaseServer(ctx context.Context, url string) []Check {
	const name = "PostgreSQL"
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return one(name, Fail, "DATABASE_URL cannot be read", "it has the form postgres://user:password@host:5432/database")
	}
	config.ConnectTimeout = 10 * time.Second
	place := fmt.Sprintf("%s, database %s", config.Host, config.Database)
	connection, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return one(name, Fail, place+" cannot be reached ("+databaseFault(err)+")", "start the server, or correct DATABASE_URL")
	}
	defer connection.Close(context.WithoutCancel(ctx))
	var version int
	var now time.Time
	asked := time.Now()
	if err := connection.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, clock_timestamp()").Scan(&version, &now); err != nil {
		return one(name, Fail, place+" does not answer ("+databaseFault(err)+")", "")
	}
	detail := fmt.Sprintf("version %d.%d at %s", version/10000, version%10000, place)
	if version/10000 < leastMajor {
		return one(name, Fail, detail, fmt.Sprintf("version %d or newer is needed", leastMajor))
	}
	checks := one(name, OK, detail, "")
	if spread := asked.Sub(now).Abs(); spread > clockSpread {
		checks = append(checks, Check{
			Name: "database clock", State: Warn, Detail: fmt.Sprintf("differs by %s from this machine's", spread.Round(time.Second)),
			Hint: "synchronise both clocks (NTP)",
		})
	}
	return checks
}

// databaseFault is the server's own word, or the network's.
func databaseFault(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Message
	}
	return cause(err)
}

// programPlaces are where distributions put the server's programs.
var programPlaces = []string{
	"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/libexec/postgresql*", "/usr/local/pgsql/bin",
	"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
}

// postgresPrograms looks for programs of a version that can open what is there.
func postgresPrograms(ctx context.Context, s Settings) []Check {
	const name = "PostgreSQL"
	const install = "apt-get install postgresql, dnf install postgresql-server or apk add postgresql; or set DATABASE_URL"
	want := 0
	if content, err := os.ReadFile(filepath.Join(s.DataDir, "postgres", "data", "PG_VERSION")); err == nil {
		want, _ = strconv.Atoi(strings.TrimSpace(string(content)))
	}
	var places []string
	if s.PostgresBinDir != "" {
		places = []string{s.PostgresBinDir}
	} else {
		places = usualPlaces()
	}
	var seen []int
	for _, dir := range places {
		major := majorOf(ctx, dir)
		if major == 0 || slices.Contains(seen, major) {
			continue
		}
		if major == want || want == 0 && major >= leastMajor {
			return one(name, OK, fmt.Sprintf("version %d in %s (embedded)", major, dir), "")
		}
		seen = append(seen, major)
	}
	switch {
	case want != 0:
		return one(name, Fail, fmt.Sprintf("the data was written by version %d, found: %v", want, seen), fmt.Sprintf("install PostgreSQL %d", want))
	case len(seen) > 0:
		return one(name, Fail, fmt.Sprintf("version %v found, %d or newer is needed", seen, leastMajor), install)
	case s.PostgresBinDir != "":
		return one(name, Fail, s.PostgresBinDir+" holds no PostgreSQL", "correct POSTGRES_BIN_DIR, or unset it")
	}
	return one(name, Fail, "its programs were not found", install)
}

func usualPlaces() []string {
	var places []string
	if path, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			places = append(places, filepath.Dir(real))
		}
	}
	for _, pattern := range programPlaces {
		found, _ := filepath.Glob(pattern)
		places = append(places, found...)
	}
	return places
}

var number = regexp.MustCompile(`[0-9]+`)

// majorOf is the version of the programs in dir; 0 when they are not whole.
func majorOf(ctx context.Context, dir string) int {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return 0
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return 0
	}
	major, _ := strconv.Atoi(number.FindString(string(out)))
	return major
}
