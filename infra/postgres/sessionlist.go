package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
)

// searchedEntries bounds a search in message text: the newest of the user's
// turns are read, and the answer says so when there were more.
const searchedEntries = 20_000

// fold is the collation of searches: it folds case beyond ASCII whatever the
// database's own locale is.
const fold = `COLLATE "und-x-icu"`

// Sessions lists a page of a user's sessions, pinned ones first, newest first.
func (db *DB) Sessions(ctx context.Context, q domain.SessionQuery) (domain.SessionPage, error) {
	if q.Search != "" {
		return db.searchSessions(ctx, q)
	}
	const mine = `
		FROM   sessions s
		WHERE  s.owner_id = @owner AND s.deleted_at IS NULL AND (@prefix = '' OR starts_with(s.template_id, @prefix))`
	args := pgx.NamedArgs{"owner": q.OwnerID, "prefix": q.TemplateIDPrefix, "limit": q.Limit, "offset": q.Offset}
	var page domain.SessionPage
	var both pgx.Batch // one round trip
	both.Queue(`SELECT count(*)`+mine, args).QueryRow(func(row pgx.Row) error { return row.Scan(&page.Total) })
	both.Queue(`SELECT `+sessionColumns+mine+` ORDER BY s.is_pinned DESC, s.id DESC LIMIT @limit OFFSET @offset`, args).
		Query(func(rows pgx.Rows) (err error) {
			page.Items, err = pgx.CollectRows(rows, pgx.RowToStructByName[domain.Session])
			return err
		})
	return page, fault("list sessions", db.Pool.SendBatch(ctx, &both).Close())
}

// searchSessions finds the page's ids first, so that each turn's text is looked
// at once.
func (db *DB) searchSessions(ctx context.Context, q domain.SessionQuery) (domain.SessionPage, error) {
	var page domain.SessionPage
	var ids []string
	err := db.Pool.QueryRow(ctx, searchList, pgx.NamedArgs{
		"owner": q.OwnerID, "prefix": q.TemplateIDPrefix, "limit": q.Limit, "offset": q.Offset,
		"pattern": literalPattern(q.Search), "cap": searchedEntries,
	}).Scan(&page.Total, &page.Truncated, &ids)
	if err != nil || len(ids) == 0 {
		return page, fault("search sessions", err)
	}
	rows, _ := db.Pool.Query(ctx, `
		SELECT `+sessionColumns+`
		FROM   sessions s
		WHERE  s.id = ANY(@ids) AND s.owner_id = @owner AND s.deleted_at IS NULL
		ORDER  BY array_position(@ids::text[], s.id)`,
		pgx.NamedArgs{"ids": ids, "owner": q.OwnerID})
	page.Items, err = pgx.CollectRows(rows, pgx.RowToStructByName[domain.Session])
	return page, fault("read found sessions", err)
}

const searchList = `
	WITH mine AS (
		SELECT id, is_pinned, intent FROM sessions
		WHERE  owner_id = @owner AND deleted_at IS NULL AND (@prefix = '' OR starts_with(template_id, @prefix))),
	recent AS MATERIALIZED (
		SELECT e.session_id, e.blocks
		FROM   entries e JOIN mine ON mine.id = e.session_id
		WHERE  e.kind = 'message' AND e.role IN ('user', 'assistant')
		ORDER  BY e.id DESC LIMIT @cap + 1),
	hits AS MATERIALIZED (
		SELECT id, is_pinned FROM mine
		WHERE  intent ` + fold + ` ILIKE @pattern
		OR     id IN (
			SELECT r.session_id FROM recent r
			WHERE  EXISTS (SELECT 1 FROM jsonb_array_elements(r.blocks) b
			               WHERE b ->> 'type' = 'text' AND (b ->> 'content') ` + fold + ` ILIKE @pattern)))
	SELECT (SELECT count(*) FROM hits),
	       (SELECT count(*) > @cap FROM recent),
	       coalesce((SELECT array_agg(page.id ORDER BY page.is_pinned DESC, page.id DESC) FROM (
	           SELECT id, is_pinned FROM hits ORDER BY is_pinned DESC, id DESC LIMIT @limit OFFSET @offset) page), '{}')`

// literalPattern makes an ILIKE pattern that finds the text itself anywhere.
func literalPattern(text string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text) + "%"
}
