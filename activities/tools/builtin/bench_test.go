package builtin

import (
	"os"
	"testing"

	"everloop/activities/tools"
	"everloop/activities/tools/toolstest"
)

func TestMain(m *testing.M) { os.Exit(toolstest.RunTests(m)) }

// newBench returns a session with all tools.
func newBench(t testing.TB, box tools.Sandbox, limits ...tools.Limits) *toolstest.Bench {
	t.Helper()

	return toolstest.NewBench(t, box, New, limits...)
}
