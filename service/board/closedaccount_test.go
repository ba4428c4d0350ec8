package board

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain/board"
)

// A run that waits when the account of the agent's owner is closed sends nothing.
func TestStore_ClaimIssueRun_closedOwner(t *testing.T) {
	t.Parallel()

	for name, ends := range map[string]string{
		"disabled": `UPDATE users SET disabled_at = now() WHERE id = $1`,
		"deleted":  `UPDATE users SET deleted_at = now() WHERE id = $1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			d := newRunFixture(t)
			run := d.issue().ActiveRun.ID
			require.Equal(t, []string{run}, d.dispatch())
			_, err := d.db.Pool.Exec(t.Context(), ends, d.ann.ID)
			require.NoError(t, err)

			claimed, _, err := d.store.ClaimIssueRun(t.Context(), run)
			require.NoError(t, err)
			require.True(t, claimed.Ended)

			var status board.IssueRunStatus
			require.NoError(t, d.db.Pool.QueryRow(t.Context(), `SELECT status FROM issue_runs WHERE id = $1`, run).Scan(&status))
			require.Equal(t, board.IssueRunFailed, status)
		})
	}
}
