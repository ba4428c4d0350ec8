//go:build linux

package skills_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres"
	"everloop/infra/workspace"
	"everloop/internal/testkit"
	"everloop/service/skills"
)

// BenchmarkOffer is what each step of a chat and each of its tool calls pays: it
// must stay far below a millisecond.
func BenchmarkOffer(b *testing.B) {
	db, err := postgres.Open(b.Context(), testkit.Postgres(b), postgres.Options{})
	require.NoError(b, err)

	defer db.Close()

	s, err := skills.New(skills.Config{
		Dir: b.TempDir(), Workspaces: workspace.New(b.TempDir()), Store: skills.NewStore(db.DB), Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(b, err)

	for _, n := range []int{0, 10} {
		session := domain.Session{ID: domain.SessionID(domain.NewID()), OwnerID: "owner"}

		for i := range n {
			name := fmt.Sprintf("skill-%d", i)
			files, err := s.Workspaces.Open(b.Context(), session.ID, 0)
			require.NoError(b, err)
			_, err = files.WriteFile(
				b.Context(),
				".skills/"+name+"/SKILL.md",
				strings.NewReader(document(name, "1.0.0", "x")),
				workspace.WriteOptions{Parents: true},
			)
			require.NoError(b, err)
			require.NoError(b, files.Close())
		}

		b.Run(fmt.Sprintf("%d in the workspace", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Offer(b.Context(), session); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
