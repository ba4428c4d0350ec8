package memories_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres/pgtest"
	"everloop/service/memories"
)

func TestMemories(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	store := memories.New(db.DB)
	ann, ben := pgtest.User(t, db, "ann", false).ID, pgtest.User(t, db, "ben", false).ID
	keep := func(user, content string, kind domain.MemoryType) domain.Memory {
		t.Helper()
		m, err := store.CreateMemory(t.Context(), user, domain.NewMemory{Type: kind, Content: content})
		require.NoError(t, err)

		return m
	}
	german := keep(ann, "Reports are written in German.", domain.MemoryFeedback)
	deploys := keep(ann, "Deployments of the billing service need a migration first.", domain.MemoryExperience)
	keep(ann, "The parser is slow on 100% full files.", domain.MemoryExperience)
	keep(ben, "Deployments are forbidden on Fridays.", domain.MemoryFeedback)
	umlaut := keep(ann, "Größe der Bilder: 'klein' \\ mittel", domain.MemoryExperience)

	t.Run("keywords are literal and fold case", func(t *testing.T) {
		for keyword, want := range map[string]int{"DEPLOYMENTS": 1, "100%": 1, "1__%": 0, "größe": 1, "e": 4} {
			page, total, err := store.Memories(t.Context(), domain.MemoryQuery{UserID: ann, Keyword: keyword, Limit: 1})
			require.NoError(t, err)
			require.Equal(t, want, total, keyword)
			require.LessOrEqual(t, len(page), 1)
		}
	})

	t.Run("recall finds by words and stems, adds feedback, counts hits, and stays with its user", func(t *testing.T) {
		recalled, err := store.RecallMemories(t.Context(), ann, "How do I deploy billing? It's 'urgent' \\ & | !")
		require.NoError(t, err)
		require.Len(t, recalled, 2)
		require.Equal(t, german.ID, recalled[0].ID)
		require.Zero(t, recalled[0].Score)
		require.Equal(t, deploys.ID, recalled[1].ID)
		require.Positive(t, recalled[1].Score)
		now, err := store.Memory(t.Context(), ann, deploys.ID)
		require.NoError(t, err)
		require.EqualValues(t, 1, now.HitCount)
		require.NotNil(t, now.LastHitAt)

		for _, question := range []string{"", "?!", strings.Repeat("größe ", 3000), "\\'\\"} {
			_, err := store.RecallMemories(t.Context(), ann, question)
			require.NoError(t, err, question)
		}
	})

	t.Run("superseded and disabled ones are not recalled", func(t *testing.T) {
		newer, err := store.CreateMemory(t.Context(), ann, domain.NewMemory{
			Type: domain.MemoryFeedback, Content: "Reports are written in French.", Supersedes: german.ID, CallID: "call_1",
		})
		require.NoError(t, err)
		again, err := store.CreateMemory(t.Context(), ann, domain.NewMemory{
			Type: domain.MemoryFeedback, Content: "Reports are written in French.", Supersedes: german.ID, CallID: "call_1",
		})
		require.NoError(t, err)
		require.Equal(t, newer.ID, again.ID, "a call that is tried again keeps nothing twice")
		old, err := store.Memory(t.Context(), ann, german.ID)
		require.NoError(t, err)
		require.Equal(t, newer.ID, *old.SupersededBy)
		_, err = store.SetMemoryDisabled(t.Context(), ann, umlaut.ID, true)
		require.NoError(t, err)
		recalled, err := store.RecallMemories(t.Context(), ann, "Größe der Bilder in German reports")
		require.NoError(t, err)
		require.Len(t, recalled, 1)
		require.Equal(t, newer.ID, recalled[0].ID)
		_, err = store.CreateMemory(t.Context(), ben, domain.NewMemory{Type: domain.MemoryFeedback, Content: "x", Supersedes: newer.ID})
		require.True(t, domain.HasCode(err, "memory_not_found"))
	})

	t.Run("no user changes another user's", func(t *testing.T) {
		n, err := store.ChangeMemories(t.Context(), ben, "delete", []int64{german.ID, deploys.ID, 1 << 40})
		require.NoError(t, err)
		require.Zero(t, n)
		require.True(t, domain.HasCode(store.DeleteMemory(t.Context(), ben, deploys.ID), "memory_not_found"))
		_, err = store.ChangeMemory(t.Context(), ben, deploys.ID, []domain.MemoryField{{Column: "topic"}})
		require.True(t, domain.HasCode(err, "memory_not_found"))
	})
}

func TestMemoriesOfManyAreFoundByIndexes(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	store := memories.New(db.DB)
	ann := pgtest.User(t, db, "ann", false).ID
	_, err := db.Pool.Exec(t.Context(), `
		INSERT INTO memories (user_id, type, content) SELECT $1, 'experience', 'Fact ' || i || ' about thing' || (i % 1000)
		    FROM generate_series(1, 10000) i`, ann)
	require.NoError(t, err)
	page, total, err := store.Memories(t.Context(), domain.MemoryQuery{UserID: ann, Status: "active", Limit: 20, Offset: 9_990})
	require.NoError(t, err)
	require.Len(t, page, 10)
	require.Equal(t, 10_000, total)
	recalled, err := store.RecallMemories(t.Context(), ann, "what about thing77?")
	require.NoError(t, err)
	require.NotEmpty(t, recalled)

	for _, m := range recalled {
		require.Contains(t, m.Content, "thing77", fmt.Sprint(recalled))
	}
}
