package schedule

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestEndOfChecks(t *testing.T) {
	t.Parallel()

	met := RunCheck{Kind: CheckFile, Subject: "a.md", Met: true}
	missing := RunCheck{Kind: CheckFile, Subject: "b/*.md", Reason: "no file matches"}
	failed := RunCheck{Kind: CheckCommand, Subject: "make " + strings.Repeat("x", 200), Reason: "exit code 2"}

	require.Equal(t, domain.RunEnd{Status: domain.RunCompleted}, EndOfChecks(nil))
	require.Equal(t, domain.RunEnd{Status: domain.RunCompleted}, EndOfChecks([]RunCheck{met}))

	end := EndOfChecks([]RunCheck{met, missing, failed})
	require.Equal(t, []any{domain.RunFailed, ReasonOutcomeNotMet, true}, []any{end.Status, end.Reason, end.Counts})
	require.Equal(t, `the outcome contract is not met: file "b/*.md": no file matches; command "make `+
		strings.Repeat("x", 94)+`…": exit code 2`, end.Error)
}
