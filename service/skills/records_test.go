//go:build linux

package skills_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/skill"
	"everloop/infra/postgres/pgtest"
	"everloop/service/skills"
)

func TestStore(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	store := skills.NewStore(db.DB)
	ann, ben := pgtest.User(t, db, "ann", false).ID, pgtest.User(t, db, "ben", false).ID
	session, err := db.CreateSession(t.Context(), ann, domain.NewSession{})
	require.NoError(t, err)

	t.Run("an installation replaces the earlier one of its owner", func(t *testing.T) {
		install := func(owner, version string) *string {
			t.Helper()
			replaced, err := store.InstallSkill(
				t.Context(),
				skill.Installed{OwnerID: owner, Org: "acme", Name: "tables", Version: version, Digest: "d" + version},
			)
			require.NoError(t, err)

			return replaced
		}
		require.Nil(t, install(ann, "1.0.0"))
		require.Equal(t, "1.0.0", *install(ann, "1.1.0"))
		require.Nil(t, install(ben, "1.0.0"))
		list, err := store.InstalledSkills(t.Context(), ann)
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, "d1.1.0", list[0].Digest)
		require.WithinDuration(t, time.Now(), list[0].InstalledAt, time.Minute)
	})

	t.Run("packages of a session", func(t *testing.T) {
		put := func(name, digest string) {
			t.Helper()
			require.NoError(
				t,
				store.PutSessionSkill(
					t.Context(),
					skill.SessionSkill{SessionID: session.ID, Name: name, Source: skill.Uploaded, Digest: digest},
				),
			)
		}
		put("b", "1")
		put("a", "1")
		put("a", "2")

		list, err := store.SessionSkills(t.Context(), session.ID)
		require.NoError(t, err)
		require.Len(t, list, 2)
		require.Equal(t, "2", list[0].Digest)
		require.NoError(t, store.DropSessionSkills(t.Context(), session.ID, []string{"a", "unknown"}))
		list, err = store.SessionSkills(t.Context(), session.ID)
		require.NoError(t, err)
		require.Len(t, list, 1)
	})

	t.Run("what was loaded before", func(t *testing.T) {
		for i, want := range []string{"", "1", "1", "2"} {
			before, err := store.LoadedSkill(t.Context(), session.ID, "a", []string{"1", "1", "2", "3"}[i])
			require.NoError(t, err)
			require.Equal(t, want, before)
		}
	})

	t.Run("the first snapshot stays", func(t *testing.T) {
		none, err := store.SkillSnapshot(t.Context(), session.ID)
		require.NoError(t, err)
		require.Nil(t, none)
		first, err := store.TakeSkillSnapshot(
			t.Context(),
			session.ID,
			skill.Snapshot{SkillID: "builtin:a", Name: "a", Digest: "1", Path: "p", FilesCount: 3},
		)
		require.NoError(t, err)
		second, err := store.TakeSkillSnapshot(
			t.Context(),
			session.ID,
			skill.Snapshot{SkillID: "builtin:b", Name: "b", Digest: "2", Path: "q"},
		)
		require.NoError(t, err)
		require.Equal(t, first, second)
		require.Equal(t, 3, second.FilesCount)
	})

	t.Run("statistics come from the calls", func(t *testing.T) {
		stats, err := store.SkillStats(t.Context(), session.ID)
		require.NoError(t, err)
		require.Empty(t, stats)
		_, err = db.Pool.Exec(t.Context(), `
			INSERT INTO chats (id, session_id, branch_id, trigger, mode, state) VALUES ('chat', $1, $2, 'user', 'executing', 'ended')`,
			session.ID, session.ActiveBranchID)
		require.NoError(t, err)
		_, err = db.Pool.Exec(t.Context(), `
			INSERT INTO entries (id, session_id, branch_id, sequence, chat_id, role, status)
			VALUES ('turn', $1, $2, 0, 'chat', 'assistant', 'completed')`, session.ID, session.ActiveBranchID)
		require.NoError(t, err)

		for i, call := range []struct{ tool, arguments, status, result string }{
			{"Skill", `{"name":"a"}`, "done", "12345678"},
			{"Skill", `{"name":"a","arguments":"x"}`, "done", "12345"},
			{"Skill", `{"name":"a"}`, "error", "a long text of an error"},
			{"Skill", `{"name":"b"}`, "done", ""},
			{"Skill", `{"name":"b"}`, "pending", ""},
			{"Skill", `{"name":"b"}`, "cancelled", ""},
			{"Skill", `{"name":`, "error", "x"},
			{"Skill", `{"name":["a"]}`, "error", "x"},
			{"Bash", `{"name":"a"}`, "done", "x"},
		} {
			_, err = db.Pool.Exec(t.Context(), `
				INSERT INTO tool_calls (id, session_id, chat_id, entry_id, position, tool_name, display_name, arguments, status, phase,
				    result, duration_ms, started_at)
				VALUES ($1, $2, 'chat', 'turn', $3::int, $4, $4, $5, $6, 'finished', $7, $8,
				    now() - interval '1 hour' + $3::int * interval '1 minute')`,
				fmt.Sprint("call", i), session.ID, i, call.tool, call.arguments, call.status, call.result, 100*(i+1))
			require.NoError(t, err)
		}

		stats, err = store.SkillStats(t.Context(), session.ID)
		require.NoError(t, err)
		require.Len(t, stats, 2)
		require.Equal(t, "a", stats[0].Name)
		require.Equal(t, 3, stats[0].Invocations)
		require.Equal(t, 1, stats[0].Errors)
		require.Equal(t, 2+2, stats[0].Tokens)
		require.Equal(t, 200*time.Millisecond, stats[0].AvgDuration)

		var last time.Time
		require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT started_at FROM tool_calls WHERE id = 'call2'`).Scan(&last))
		require.True(t, last.Equal(stats[0].LastUsedAt), "%v, not %v", stats[0].LastUsedAt, last)
		require.Equal(t, 1, stats[1].Invocations)
	})

	t.Run("a purge removes all of it", func(t *testing.T) {
		_, err := db.Pool.Exec(t.Context(), `UPDATE sessions SET deleted_at = now() WHERE id = $1`, session.ID)
		require.NoError(t, err)
		require.NoError(t, db.PurgeSession(t.Context(), session.ID))
		list, err := store.SessionSkills(t.Context(), session.ID)
		require.NoError(t, err)
		require.Empty(t, list)
	})
}
