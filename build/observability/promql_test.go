package observability

import (
	"encoding/json"
	"log/slog"
	"os"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

// The rules pass the checks with which Prometheus loads them: fields, expressions and the
// templates of annotations. That they name existing metrics is tested in internal/app.
func TestAlerts_load(t *testing.T) {
	t.Parallel()

	groups, faults := rulefmt.ParseFile(
		"alerts.yaml",
		false,
		model.UTF8Validation,
		parser.NewParser(parser.Options{}),
		slog.New(slog.DiscardHandler),
	)
	require.Empty(t, faults)
	require.NotEmpty(t, groups.Groups)

	for _, group := range groups.Groups {
		require.NotEmpty(t, group.Rules, group.Name)
	}
}

func TestDashboard_parses(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)

	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &board))
	require.NotEmpty(t, board.Panels)

	for _, panel := range board.Panels {
		require.NotEmpty(t, panel.Targets, panel.Title)

		for _, target := range panel.Targets {
			_, err := parser.NewParser(parser.Options{}).ParseExpr(target.Expr)
			require.NoError(t, err, "%s: %s", panel.Title, target.Expr)
		}
	}
}
