package app

import (
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestRetentionSettings_ages(t *testing.T) {
	t.Parallel()

	var s retentionSettings

	parser, err := kong.New(&s)
	require.NoError(t, err)
	_, err = parser.Parse([]string{
		"--retention-chat-days=1", "--retention-run-days=2",
	})
	require.NoError(t, err)

	const day = 24 * time.Hour

	require.Equal(t, map[domain.SessionClass]time.Duration{
		domain.ClassChat: day, domain.ClassSchedule: 2 * day, domain.ClassDAG: 2 * day, domain.ClassIssue: 2 * day,
	}, s.ages())
}
