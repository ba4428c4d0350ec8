package sessions_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
)

// hits gives the total of a search, and the ids of its first sessions.
func hits(t *testing.T, db *postgres.DB, user domain.User, text string) (total int, ids []domain.SessionID) {
	t.Helper()
	page, err := db.Sessions(t.Context(), domain.SessionQuery{OwnerID: user.ID, Search: text, Limit: 5})
	require.NoError(t, err)

	for _, s := range page.Items {
		ids = append(ids, s.ID)
	}

	return page.Total, ids
}

// TestSearchWithAndWithoutItsIndex holds that both ways of finding a text agree,
// whatever its script and however short it is.
func TestSearchWithAndWithoutItsIndex(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	ann, bob := pgtest.User(t, db, "ann", false), pgtest.User(t, db, "bob", false)
	one, err := db.CreateSession(t.Context(), ann.ID, domain.NewSession{Intent: "Приве́т, ÄPFEL & 設定ファイル 100%_x \\ İ ΟΔΟΣ abcd"})
	require.NoError(t, err)
	two, err := db.CreateSession(t.Context(), ann.ID, domain.NewSession{Intent: "abc bcd"})
	require.NoError(t, err)
	_, err = db.CreateSession(t.Context(), bob.ID, domain.NewSession{Intent: "ÄPFEL abcd 設定"})
	require.NoError(t, err)
	pgtest.Say(t, db, two, 0, `[{"type":"text","content":"first block"},{"type":"text","content":"second 🐟🐠 block"}]`)

	for _, indexed := range []bool{false, true} {
		_, err := db.Pool.Exec(t.Context(), `UPDATE search_texts SET indexed = $1`, indexed)
		require.NoError(t, err)

		for text, want := range map[string][]domain.SessionID{
			"äpf": {one.ID}, "ПРИ": {one.ID}, "設定": {one.ID}, "設": {one.ID}, "ル 1": {one.ID}, "0%_X": {one.ID}, "%_": {one.ID},
			`\`: {one.ID}, "οδοσ": nil, "οδος": {one.ID}, "abcd": {one.ID}, "bc": {two.ID, one.ID}, "c": {two.ID, one.ID}, "ab": {two.ID, one.ID},
			"bcd": {two.ID, one.ID}, "🐟🐠": {two.ID}, "🐠": {two.ID}, "blocksecond": nil, "block second": nil, "a_c": nil, "nowhere": nil,
		} {
			total, ids := hits(t, db, ann, text)
			require.Equalf(t, want, ids, "%q, indexed %t", text, indexed)
			require.Equal(t, len(want), total)
		}
	}

	_, err = db.Sessions(t.Context(), domain.SessionQuery{OwnerID: ann.ID, Search: "a\x00b", Limit: 5})
	require.Equal(t, domain.Invalid, domain.AsError(err).Kind)
}

// TestSearchFollowsWhatChanges: a text is found from the moment that its change is
// committed, and its session no longer once it is deleted.
func TestSearchFollowsWhatChanges(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	ann := pgtest.User(t, db, "ann", false)
	session, err := db.CreateSession(t.Context(), ann.ID, domain.NewSession{Intent: "before"})
	require.NoError(t, err)
	pgtest.Say(t, db, session, 0, `[{"type":"text","content":"whole"}]`)
	_, err = db.Pool.Exec(t.Context(), `UPDATE search_texts SET indexed = true`)
	require.NoError(t, err)

	found := func(text string) bool {
		total, ids := hits(t, db, ann, text)
		require.Len(t, ids, total)

		return total == 1
	}
	require.True(t, found("before"))

	for step, change := range []struct {
		sql        string
		gone, come string
	}{
		{`UPDATE sessions SET intent = 'after' WHERE id = $1`, "before", "after"},
		{`UPDATE sessions SET status = 'running' WHERE id = $1`, "before", "after"},
		{`UPDATE entries SET status = 'streaming', blocks = '[{"type":"text","content":"half"}]' WHERE session_id = $1`, "half", "whole"},
		{`UPDATE entries SET blocks = '[{"type":"text","content":"half and the rest"}]' WHERE session_id = $1`, "rest", "whole"},
		{`UPDATE entries SET status = 'completed' WHERE session_id = $1`, "whole", "the rest"},
		{`UPDATE sessions SET intent = '' WHERE id = $1`, "after", "the rest"},
	} {
		_, err := db.Pool.Exec(t.Context(), change.sql, session.ID)
		require.NoError(t, err)
		require.Falsef(t, found(change.gone), "after step %d: %s", step, change.gone)
		require.Truef(t, found(change.come), "after step %d: %s", step, change.come)
	}

	require.NoError(t, db.DeleteSession(t.Context(), session.ID))
	require.False(t, found("the rest"))
	require.NoError(t, db.PurgeSession(t.Context(), session.ID))

	var left int
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM search_texts`).Scan(&left))
	require.Zero(t, left)
}

// TestSearchReachesEverything: the oldest of many texts is found, and texts that
// searches have had to read enter the index.
func TestSearchReachesEverything(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	ann := pgtest.User(t, db, "ann", false)
	session, err := db.CreateSession(t.Context(), ann.ID, domain.NewSession{Intent: "chatter"})
	require.NoError(t, err)
	pgtest.Say(t, db, session, 0, `[{"type":"text","content":"the oldest word"}]`)
	_, err = db.Pool.Exec(t.Context(), `
		INSERT INTO entries (id, session_id, branch_id, sequence, chat_id, role, status, blocks)
		SELECT 'z' || n, session_id, branch_id, n, chat_id, 'user', 'completed',
		    jsonb_build_array(jsonb_build_object('type', 'text', 'content', 'word ' || n))
		FROM   entries, generate_series(1, 2000) n`)
	require.NoError(t, err)
	total, ids := hits(t, db, ann, "oldest")
	require.Equal(t, 1, total)
	require.Equal(t, []domain.SessionID{session.ID}, ids)

	waiting := func() (n int) {
		require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM search_texts WHERE NOT indexed`).Scan(&n))
		return n
	}

	require.Eventually(t, func() bool { return waiting() == 0 }, 3*time.Minute, 20*time.Millisecond)

	for _, text := range []string{"oldest", "chatter", "word 2000", "word 2"} {
		total, _ := hits(t, db, ann, text)
		require.Equal(t, 1, total, text)
	}
}

// TestListsOfSessionsAreReadFromTheirIndex: a late page must not compute what it
// skips, and a word that is looked up must not be looked for in every text.
func TestListsOfSessionsAreReadFromTheirIndex(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	ann := pgtest.User(t, db, "ann", false)
	_, err := db.Pool.Exec(t.Context(), `
		INSERT INTO sessions (id, owner_id, intent, template_id, active_branch_id)
		SELECT 's' || n, $1, 'session ' || n, 't' || n % 3, 'b' FROM generate_series(1000, 1999) n`, ann.ID)
	require.NoError(t, err)
	_, err = db.Pool.Exec(t.Context(), `UPDATE search_texts SET indexed = true`)
	require.NoError(t, err)
	page, err := db.Sessions(t.Context(), domain.SessionQuery{OwnerID: ann.ID, Limit: 2, Offset: 990})
	require.NoError(t, err)
	require.Equal(t, 1000, page.Total)
	require.EqualValues(t, "s1009", page.Items[0].ID)
	page, err = db.Sessions(t.Context(), domain.SessionQuery{OwnerID: ann.ID, Limit: 2, Offset: 300, TemplateIDPrefix: "t0"})
	require.NoError(t, err)
	require.Equal(t, 333, page.Total)
	require.EqualValues(t, fmt.Sprint("s", 1998-300*3), page.Items[0].ID)
	_, err = db.Pool.Exec(t.Context(), `VACUUM ANALYZE sessions`)
	require.NoError(t, err)

	for sql, index := range map[string]string{
		`SELECT id FROM sessions WHERE owner_id = (SELECT 'x') AND deleted_at IS NULL
			ORDER BY is_pinned DESC, id DESC`: "Index Only Scan using sessions_of_owner",
		`SELECT count(*) FROM sessions WHERE owner_id = (SELECT 'x') AND deleted_at IS NULL
			AND owner_id <> ''`: "Index Only Scan using sessions_counted",
		`SELECT count(*) FROM sessions WHERE owner_id = (SELECT 'x') AND deleted_at IS NULL AND template_id COLLATE "C" >= 'a'
			AND template_id COLLATE "C" < 'b'`: "Index Only Scan using sessions_of_template",
		`SELECT 1 FROM search_texts WHERE indexed
			AND grams(owner_id, folded) @> grams('x', 'word')`: "search_grams",
	} {
		rows, err := db.Pool.Query(t.Context(), `EXPLAIN `+sql)
		require.NoError(t, err)

		plan := ""

		for rows.Next() {
			values, err := rows.Values()
			require.NoError(t, err)

			plan += fmt.Sprintln(values...)
		}

		require.NoError(t, rows.Err())
		require.Contains(t, plan, index)
	}
}
