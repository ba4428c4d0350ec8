package commands

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/domain/schedule"
)

// answers is a sandbox whose commands write a text and end so.
type answers struct {
	text string
	exit tools.Exit
	err  error
}

func (a answers) Run(_ context.Context, c tools.Command) (tools.Exit, error) {
	if c.Started != nil {
		c.Started(1)
	}

	_, _ = c.Stdout.Write([]byte(a.text))

	return a.exit, a.err
}

func TestRunCheck(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		sandbox answers
		met     bool
		why     string
		fault   bool
	}{
		"passes":           {sandbox: answers{text: "fine\n"}, met: true},
		"ends non-zero":    {sandbox: answers{exit: tools.Exit{Code: 3}}, why: "exit code 3"},
		"killed":           {sandbox: answers{exit: tools.Exit{Code: 137, Killed: "out of memory"}}, why: "out of memory"},
		"refused":          {sandbox: answers{err: domain.Newf(domain.RateLimited, "busy", "too many commands")}, why: "too many commands"},
		"sandbox at fault": {sandbox: answers{err: errors.New("broken")}, fault: true},
	} {
		check, err := RunCheck(t.Context(), tc.sandbox, tools.SessionView{}, "make")
		require.Equal(t, tc.fault, err != nil, name)
		require.Equal(t, []any{tc.met, tc.why, tc.sandbox.text}, []any{check.Met, check.Reason, check.Output}, name)
	}

	long, err := RunCheck(t.Context(), answers{text: "begin" + strings.Repeat("é", 1<<20) + "end"}, tools.SessionView{}, "make")
	require.NoError(t, err)
	require.LessOrEqual(t, len([]rune(long.Output)), schedule.MaxCheckOutput)
	require.True(t, strings.HasPrefix(long.Output, "begin") && strings.HasSuffix(long.Output, "end"))

	over, cancel := context.WithCancel(t.Context())
	cancel()

	_, err = RunCheck(over, answers{err: context.Canceled}, tools.SessionView{}, "make")
	require.ErrorIs(t, err, context.Canceled)
}
