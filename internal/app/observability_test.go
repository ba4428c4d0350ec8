package app

import (
	"context"
	"encoding/json"
	"maps"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"everloop/api"
	"everloop/auth"
	"everloop/infra/metrics"
)

// someLoad is a database in which something is under way.
type someLoad struct{}

func (someLoad) Load(context.Context) (map[string]int, int, int, error) {
	return map[string]int{"running": 1, "parked": 1}, 1, 1, nil
}

func (someLoad) Waits(context.Context) (map[string]time.Duration, map[string]int, error) {
	return map[string]time.Duration{"question": 1, "model": 1, "queue": 1}, map[string]int{"overdue": 1, "unsynced": 1}, nil
}

// exported gathers the series of a registry to which every part of the service has
// added its metrics: the names of labels by the name of the series.
func exported(t *testing.T) map[string][]string {
	t.Helper()

	b := &backend{metrics: metrics.New()}
	b.settings.DataDir = t.TempDir()
	b.registerSpace()
	metrics.RegisterLoad(b.metrics, someLoad{})
	metrics.RegisterWaits(b.metrics, someLoad{})
	metrics.NewWorkerVersion(b.metrics, "1").Set("current")
	work := metrics.NewWorker(b.metrics)
	work.ChatEnded("stop")
	work.ModelCalled("failed", time.Second)
	work.ToolCalled("Bash", "completed", time.Second)
	work.JobFailed("archives")
	work.Found("stalled")

	edge := api.New(api.Config{Context: t.Context(), Auth: auth.New(noKeys{}, auth.Options{}), Metrics: b.metrics}, api.Areas{})
	request := httptest.NewRequestWithContext(t.Context(), "GET", "/healthz", nil)
	request.Host = "localhost"
	response, err := edge.Test(request, -1) // no time limit
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())

	families, err := b.metrics.Gather()
	require.NoError(t, err)

	series := map[string][]string{}

	for _, family := range families {
		labels := []string{"instance", "job"} // added by Prometheus
		for _, pair := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, pair.GetName())
		}

		name := family.GetName()
		if family.GetMetric()[0].GetHistogram() == nil {
			series[name] = labels
			continue
		}

		series[name+"_count"], series[name+"_sum"] = labels, labels
		series[name+"_bucket"] = append(slices.Clone(labels), "le")
	}

	return series
}

// Prometheus' own parser checks the queries in build/observability, its own module,
// since it would add many others to this one. These expressions find the names in the
// part of PromQL that the rules and the dashboard use, and badQuery refuses what they would
// not understand.
var (
	quoted   = regexp.MustCompile(`"[^"]*"`)
	grouping = regexp.MustCompile(`\b(?:by|without|on|ignoring)\s*\(([^)]*)\)`)
	selector = regexp.MustCompile(`([A-Za-z_:][\w:]*)\s*\{([^}]*)\}`)
	matcher  = regexp.MustCompile(`^\s*([A-Za-z_]\w*)\s*(?:=~|!~|!=|=)\s*""\s*$`)
	window   = regexp.MustCompile(`\[\d+[smhd]\]`)
	word     = regexp.MustCompile(`[A-Za-z_:][\w:]*`)
	function = regexp.MustCompile(`\b(?:sum|min|max|rate|increase|histogram_quantile)\s*\(`)
	rest     = regexp.MustCompile(`^[\s\d.()<>=*/+,-]*$`)
)

// badQuery returns what is wrong with a query; "" when it uses only series and labels that
// are exported.
func badQuery(query string, series map[string][]string) string {
	text := quoted.ReplaceAllString(query, `""`)
	if strings.Count(text, "(") != strings.Count(text, ")") {
		return "the brackets do not match"
	}

	var labels []string

	for _, found := range grouping.FindAllStringSubmatch(text, -1) {
		for label := range strings.SplitSeq(found[1], ",") {
			labels = append(labels, strings.TrimSpace(label))
		}
	}

	text = grouping.ReplaceAllString(text, "")
	for _, found := range selector.FindAllStringSubmatch(text, -1) {
		for condition := range strings.SplitSeq(found[2], ",") {
			match := matcher.FindStringSubmatch(condition)
			if match == nil {
				return "unknown matcher " + condition
			}

			if !slices.Contains(series[found[1]], match[1]) {
				return found[1] + " has no label " + match[1]
			}
		}
	}

	text = function.ReplaceAllString(window.ReplaceAllString(selector.ReplaceAllString(text, "$1"), ""), "(")

	names := word.FindAllString(text, -1)
	if len(names) == 0 {
		return "no series"
	}

	for _, name := range names {
		if series[name] == nil {
			return "unknown series or function " + name
		}

		for _, label := range labels {
			if !slices.Contains(series[name], label) {
				return name + " has no label " + label
			}
		}
	}

	if left := word.ReplaceAllString(text, ""); !rest.MatchString(left) {
		return "unknown syntax " + left
	}

	return ""
}

func TestBadQuery(t *testing.T) {
	t.Parallel()

	series := map[string][]string{"a": {"x", "job"}, "b": {"x"}}
	require.Empty(t, badQuery(`sum by (x) (rate(a{x="b{"}[5m])) / 2 > 0.1`, series))

	for _, query := range []string{
		"c", "sum by (y) (a)", `a{y="1"}`, "sum by (job) (a - b)", "total(a)", "sum(a", "a offset 5m", `a{x~"1"}`, "a @ 1", "1",
	} {
		require.NotEmpty(t, badQuery(query, series), query)
	}
}

var templated = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?([a-z_]+)\s*\}\}`)

// visible fails when a text shows a label that the result of its query does not have.
func visible(t *testing.T, text, query string) {
	t.Helper()

	for _, found := range templated.FindAllStringSubmatch(text, -1) {
		kept := grouping.FindStringSubmatch(query)
		require.NotNil(t, kept, "%s has no labels", query)
		require.Contains(t, strings.Split(strings.ReplaceAll(kept[1], " ", ""), ","), found[1], query)
	}
}

func TestAlerts(t *testing.T) {
	t.Parallel()
	series := exported(t)
	text, err := os.ReadFile("../../build/observability/alerts.yaml")
	require.NoError(t, err)
	docs, err := os.ReadFile("../../docs/operators/monitoring.md")
	require.NoError(t, err)

	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}

	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(&file))

	seen := map[string]bool{}

	for _, group := range file.Groups {
		require.NotEmpty(t, group.Name)

		for _, rule := range group.Rules {
			require.NotEmpty(t, rule.Alert)
			require.False(t, seen[rule.Alert], rule.Alert)
			seen[rule.Alert] = true
			require.Empty(t, badQuery(rule.Expr, series), rule.Alert)
			_, err := time.ParseDuration(rule.For)
			require.NoError(t, err, rule.Alert)
			require.Contains(t, []string{"info", "warning", "critical"}, rule.Labels["severity"], rule.Alert)
			require.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
			visible(t, rule.Annotations["summary"], rule.Expr)
			require.Contains(t, string(docs), "| `"+rule.Alert+"` |", "docs/operators/monitoring.md says what to do")
		}
	}

	require.NotEmpty(t, seen)
}

func TestDashboard(t *testing.T) {
	t.Parallel()
	series := exported(t)
	text, err := os.ReadFile("../../build/observability/dashboard.json")
	require.NoError(t, err)

	var board struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &board))

	seen := map[int]bool{}
	for _, panel := range board.Panels {
		require.False(t, seen[panel.ID], panel.Title)
		seen[panel.ID] = true
		require.NotEmpty(t, panel.Targets, panel.Title)

		for _, target := range panel.Targets {
			require.Empty(t, badQuery(target.Expr, series), panel.Title)
			visible(t, target.LegendFormat, target.Expr)
		}
	}

	require.NotEmpty(t, seen)
}

// Every metric of the service's own is in the table of docs/operators/monitoring.md.
func TestMetrics_areDocumented(t *testing.T) {
	t.Parallel()

	docs, err := os.ReadFile("../../docs/operators/monitoring.md")
	require.NoError(t, err)

	for _, name := range slices.Sorted(maps.Keys(exported(t))) {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, suffix)
		}

		if strings.HasPrefix(name, "everloop_") {
			require.Contains(t, string(docs), "`"+name+"`")
		}
	}
}
