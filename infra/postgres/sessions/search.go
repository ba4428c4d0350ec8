package sessions

import (
	"context"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// Texts enter the index of searches many at once: a search that had to read more
// than unindexedTexts outside it has them entered, indexBatch in a statement.
const (
	unindexedTexts = 300
	indexBatch     = 100
	indexPatience  = 2 * time.Minute
)

// word is what is searched for, folded once.
const word = `(SELECT word FROM asked)`

// found gives the sessions in whose texts the word is found: by the index, whose
// numbers may agree by accident, and by reading what has yet to enter it. A number
// stands for the owner too; that is checked again outside, or the planner would
// read all that they have.
const found = `
	SELECT session_id FROM (
		SELECT session_id, owner_id FROM search_texts
		WHERE  indexed AND grams(owner_id, folded) @> grams(@owner, ` + word + `) AND strpos(folded, ` + word + `) > 0 OFFSET 0) t
	WHERE  owner_id = @owner
	UNION
	SELECT session_id FROM search_texts WHERE owner_id = @owner AND NOT indexed AND strpos(folded, ` + word + `) > 0`

// foundShort is found for a word that is too short for the index.
const foundShort = `
	SELECT DISTINCT session_id FROM search_texts WHERE owner_id = @owner AND strpos(folded, ` + word + `) > 0`

// pageFound counts the hits, and gives the ids of one page of them.
func pageFound(found string) string {
	return `
		WITH asked AS MATERIALIZED (SELECT fold_case(@search) AS word),
		found AS (` + found + `),
		hits AS MATERIALIZED (
			SELECT f.session_id AS id,
			       f.session_id IN (SELECT id FROM sessions WHERE owner_id = @owner AND is_pinned AND deleted_at IS NULL) AS pinned
			FROM   found f
			WHERE  f.session_id NOT IN (SELECT id FROM sessions WHERE owner_id = @owner AND deleted_at IS NOT NULL)
			AND    (@prefix = '' OR f.session_id IN (
				SELECT id FROM sessions WHERE owner_id = @owner AND deleted_at IS NULL AND ` + ofTemplate + `)))
		SELECT (SELECT count(*) FROM hits),
		       ARRAY(SELECT id FROM hits ORDER BY pinned DESC, id DESC LIMIT @limit OFFSET @offset),
		       (SELECT count(*) FROM (SELECT 1 FROM search_texts WHERE owner_id = @owner AND NOT indexed LIMIT @many) waiting) = @many`
}

var (
	searchByIndex   = pageFound(found)
	searchByReading = pageFound(foundShort)
)

// searchSessions reads the page's sessions after it has found their ids, so that
// what is computed of a session is computed for the page alone.
func (db *Base) searchSessions(ctx context.Context, q domain.SessionQuery, args pgx.NamedArgs) (page domain.SessionPage, err error) {
	args["search"], args["many"] = q.Search, unindexedTexts

	search := searchByIndex
	if !hasGrams(q.Search) {
		search = searchByReading
	}

	var (
		ids    []string
		behind bool
	)
	if err := db.Pool.QueryRow(ctx, search, args).Scan(&page.Total, &ids, &behind); err != nil {
		return page, pg.Fault("search sessions", err)
	}

	if behind {
		go db.indexTexts(context.WithoutCancel(ctx), q.OwnerID)
	}

	if len(ids) == 0 {
		return page, nil
	}

	rows, _ := db.Pool.Query(ctx, `
		SELECT `+listedColumns+`
		FROM   sessions s
		WHERE  s.id = ANY(@ids) AND s.owner_id = @owner AND s.deleted_at IS NULL
		ORDER  BY array_position(@ids::text[], s.id)`,
		pgx.NamedArgs{"ids": ids, "owner": q.OwnerID})
	page.Items, err = pgx.CollectRows(rows, pgx.RowToStructByName[domain.Session])

	return page, pg.Fault("read found sessions", err)
}

// hasGrams reports whether the function grams of the database gives something for a
// text: it does for three characters, and for two beyond ASCII.
func hasGrams(text string) bool {
	runes := []rune(text)
	return len(runes) > 2 || len(runes) == 2 && runes[0] > unicode.MaxASCII && runes[1] > unicode.MaxASCII
}

// indexTexts enters the user's texts into the index, unless another process is at it. A
// failure is repaired by the next search.
func (db *Base) indexTexts(ctx context.Context, ownerID string) {
	ctx, cancel := context.WithTimeout(ctx, indexPatience)
	defer cancel()

	for {
		tag, err := db.Pool.Exec(ctx, `
			UPDATE search_texts SET indexed = true
			WHERE  ctid = ANY (ARRAY(
				SELECT t.ctid
				FROM   (SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0)) AS mine OFFSET 0) alone, search_texts t
				WHERE  alone.mine AND t.owner_id = $1 AND NOT t.indexed LIMIT $2 FOR UPDATE OF t SKIP LOCKED))`,
			ownerID, indexBatch)
		if err != nil || tag.RowsAffected() == 0 {
			return
		}
	}
}
