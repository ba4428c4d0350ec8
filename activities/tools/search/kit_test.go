package search

import (
	"errors"
	"os"
	"testing"

	"everloop/activities/tools"
	"everloop/activities/tools/toolstest"
)

func TestMain(m *testing.M) { os.Exit(toolstest.RunTests(m)) }

// newBench returns a session with Glob and Grep.
func newBench(t testing.TB, box tools.Sandbox) *toolstest.Bench {
	t.Helper()

	return toolstest.NewBench(t, box, func(d tools.Deps) (*tools.Registry, error) {
		d.Limits = d.Limits.OrDefault()
		r := tools.NewRegistry(d.Workspaces, d.Limits.Result)

		return r, errors.Join(r.Add(NewGlob(d)), r.Add(NewGrep(d)))
	})
}
