package postgres

import (
	"context"
	"errors"
	"unicode"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
)

// ofTemplate is a condition on the row of sessions: its template's id begins with
// @prefix.
const ofTemplate = `template_id IS NOT NULL AND template_id COLLATE "C" >= @prefix AND template_id COLLATE "C" < @beyond`

// listed is a list of sessions whose entries can be counted.
type listed struct{ owner, prefix string }

// Sessions lists a page of a user's sessions, pinned ones first, newest first.
// With a search it lists those in whose intent or turns the text is found,
// literally and in any case; turns that are being written are not looked at.
// Callers who want the same at the same time may be given the same page.
func (db *DB) Sessions(ctx context.Context, q domain.SessionQuery) (domain.SessionPage, error) {
	page, err := db.pages.ask(ctx, q, func(ctx context.Context) (domain.SessionPage, error) {
		args := pgx.NamedArgs{
			"owner": q.OwnerID, "limit": q.Limit, "offset": q.Offset,
			"prefix": q.TemplateIDPrefix, "beyond": q.TemplateIDPrefix + string(unicode.MaxRune),
		}
		if q.Search != "" {
			return db.searchSessions(ctx, q, args)
		}
		return db.listSessions(ctx, q, args)
	})()
	return page, fault("list sessions", err)
}

// listSessions counts once for all pages of a list that are asked for meanwhile.
func (db *DB) listSessions(ctx context.Context, q domain.SessionQuery, args pgx.NamedArgs) (page domain.SessionPage, err error) {
	mine := ` FROM sessions s WHERE s.owner_id = @owner AND s.deleted_at IS NULL`
	counted := mine + ` AND s.owner_id <> ''` // sessions_counted
	if q.TemplateIDPrefix != "" {
		mine += ` AND ` + ofTemplate
		counted = mine
	}
	total := db.totals.ask(ctx, listed{q.OwnerID, q.TemplateIDPrefix}, func(ctx context.Context) (n int, err error) {
		return n, db.Pool.QueryRow(ctx, `SELECT count(*)`+counted, args).Scan(&n)
	})
	// Ids first: what is skipped before a late page costs an entry of the index.
	rows, _ := db.Pool.Query(ctx, `
		SELECT `+sessionColumns+`
		FROM   (SELECT s.id `+mine+` ORDER BY s.is_pinned DESC, s.id DESC LIMIT @limit OFFSET @offset) page
		JOIN   sessions s ON s.id = page.id
		ORDER  BY s.is_pinned DESC, s.id DESC`, args)
	var reading error
	page.Items, reading = pgx.CollectRows(rows, pgx.RowToStructByName[domain.Session])
	page.Total, err = total()
	return page, errors.Join(reading, err)
}
