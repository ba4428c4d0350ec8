package cron_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain/cron"
)

const (
	suites      = "../../e2e" // where npm croner is installed
	expressions = 10_000
	maxDue      = 20 // of one question, as in croner.mjs
)

// question asks croner.mjs when an expression is due between two times.
type question struct {
	Expression string `json:"expression"`
	Zone       string `json:"zone"`
	From       int64  `json:"from"`
	To         int64  `json:"to"`
}

// Random expressions are due when npm croner says, in three zones around the clock
// changes of five years.
func TestSchedule_Next_agreesWithCroner(t *testing.T) {
	t.Parallel()

	if testing.Short() {
		t.Skip("starts Node.js; left out with -short")
	}

	installSuites(t)

	// The same expressions each time, so that a failure is there the next time too.
	random := rand.New(rand.NewPCG(2026, 1))

	var asked []question

	zones := []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe"}
	locations, changesOf := map[string]*time.Location{}, map[string][]time.Time{}

	for _, zone := range zones {
		location, err := time.LoadLocation(zone)
		require.NoError(t, err)

		locations[zone], changesOf[zone] = location, clockChanges(t, location)
	}

	for range expressions {
		expression := randomExpression(random)
		if part := strings.Fields(expression); steps(part[2]) && part[4] != "*" || steps(part[4]) && part[2] != "*" {
			continue // croner takes */2 as a restriction of which either suffices
		}

		for _, zone := range zones {
			changes := changesOf[zone]
			change := changes[random.IntN(len(changes))]
			asked = append(asked, question{expression, zone, change.Add(-6 * time.Hour).Unix(), change.Add(26 * time.Hour).Unix()})
		}
	}

	answers := askCroner(t, asked)
	for i, q := range asked {
		require.Equal(t, answers[i], due(t, q, locations[q.Zone]), "%+v", q)
	}
}

func due(t *testing.T, q question, zone *time.Location) []int64 {
	t.Helper()

	parsed, err := cron.Parse(q.Expression)
	require.NoError(t, err, q.Expression)

	times := []int64{}
	for at := time.Unix(q.From, 0); len(times) < maxDue; {
		next, ok := parsed.Next(at, zone)
		if !ok || next.Unix() > q.To {
			break
		}

		if at = next; !repeated(next) {
			times = append(times, next.Unix())
		}
	}

	return times
}

func steps(part string) bool { return strings.HasPrefix(part, "*") && part != "*" }

// repeated reports whether clocks showed the time of day before: an expression for every hour
// is due then, too, but not for croner.
func repeated(at time.Time) bool {
	const reading = "2006-01-02 15:04"

	return at.Add(-time.Hour).Format(reading) == at.Format(reading) || at.Add(-30*time.Minute).Format(reading) == at.Format(reading)
}

// clockChanges are those of a zone from 2026 to 2030.
func clockChanges(t *testing.T, location *time.Location) []time.Time {
	t.Helper()

	var changes []time.Time

	for at := time.Date(2026, 1, 1, 0, 0, 0, 0, location); ; {
		_, end := at.ZoneBounds()
		if end.Year() > 2030 {
			require.Len(t, changes, 10)
			return changes
		}

		changes, at = append(changes, end), end
	}
}

// randomExpression makes an expression of every part of the grammar that both know:
// croner rejects a step of a single value, as in 5/10.
func randomExpression(random *rand.Rand) string {
	names := [][]string{
		{"JAN", "feb", "Mar", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"},
		{"SUN", "mon", "Tue", "WED", "THU", "FRI", "SAT"},
	}
	bounds := [][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 7}}

	var parts []string

	for i, b := range bounds {
		value := func() int { return b[0] + random.IntN(b[1]-b[0]+1) }
		shown := func(v int) string {
			if i >= 3 && v-b[0] < len(names[i-3]) && random.IntN(2) == 0 {
				return names[i-3][v-b[0]]
			}

			return fmt.Sprint(v)
		}
		item := func() string {
			from, to := value(), value()

			switch random.IntN(4) {
			case 0:
				return fmt.Sprintf("*/%d", 2+random.IntN(max(1, b[1]/2)))
			case 1:
				if max(from, to) == 0 {
					return "0" // croner takes SUN for 7 at the end of a range
				}

				return shown(min(from, to)) + "-" + shown(max(from, to))
			case 2:
				return fmt.Sprintf("%d-%d/%d", min(from, to), max(from, to), 1+random.IntN(max(1, max(from, to)-min(from, to))))
			default:
				return shown(from)
			}
		}
		part := "*"

		if random.IntN(10) >= []int{1, 3, 5, 7, 6}[i] {
			list := []string{item()}
			for random.IntN(3) == 0 && len(list) < 4 {
				list = append(list, item())
			}

			part = strings.Join(list, ",")
		}

		parts = append(parts, part)
	}

	expression := strings.Join(parts, " ")
	if _, err := cron.Parse(expression); err != nil { // a day that no month has
		return randomExpression(random)
	}

	return expression
}

func askCroner(t *testing.T, asked []question) [][]int64 {
	t.Helper()

	var in bytes.Buffer

	encoder := json.NewEncoder(&in)
	for _, q := range asked {
		require.NoError(t, encoder.Encode(q))
	}

	cmd := exec.CommandContext(t.Context(), "node", "lib/croner.mjs")

	var said bytes.Buffer

	cmd.Dir, cmd.Stdin, cmd.Stderr = suites, &in, &said
	out, err := cmd.Output()
	require.NoError(t, err, said.String())

	var answers [][]int64

	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var times []int64
		require.NoError(t, json.Unmarshal(lines.Bytes(), &times))
		answers = append(answers, times)
	}

	require.Len(t, answers, len(asked))

	return answers
}

// installSuites runs npm ci where croner is not installed, one process at a time.
func installSuites(t *testing.T) {
	t.Helper()

	lock, err := os.Open(filepath.Join(suites, "package-lock.json"))
	require.NoError(t, err)

	defer lock.Close()

	require.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))

	if _, err := os.Stat(filepath.Join(suites, "node_modules", "croner", "package.json")); err == nil {
		return
	}

	cmd := exec.CommandContext(t.Context(), "npm", "ci")
	cmd.Dir = suites
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}
