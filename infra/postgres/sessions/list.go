package sessions

import (
	"context"
	"strings"
	"unicode"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// ofTemplate is a condition on the row of sessions: its template's id starts with
// @prefix.
const ofTemplate = `template_id IS NOT NULL AND template_id COLLATE "C" >= @prefix AND template_id COLLATE "C" < @beyond`

// listedColumns are plainColumns without the instructions of a session's agent, which
// are long and not shown in lists.
var listedColumns = strings.Replace(plainColumns, "s.setup,", "s.setup - 'instructions' AS setup,", 1)

// Sessions lists a page of a user's sessions, pinned ones first, newest first.
// With a search it lists those in whose intent or turns the text is found,
// literally and in any case; turns that are being written are not looked at.
func (db *Base) Sessions(ctx context.Context, q domain.SessionQuery) (domain.SessionPage, error) {
	args := pgx.NamedArgs{
		"owner": q.OwnerID, "limit": q.Limit, "offset": q.Offset,
		"prefix": q.TemplateIDPrefix, "beyond": q.TemplateIDPrefix + string(unicode.MaxRune),
	}

	list := db.listSessions
	if q.Search != "" {
		list = db.searchSessions
	}

	page, err := list(ctx, q, args)

	return page, pg.Fault("list sessions", err)
}

// listSessions reads a page and its total in one round.
func (db *Base) listSessions(ctx context.Context, q domain.SessionQuery, args pgx.NamedArgs) (page domain.SessionPage, err error) {
	mine := ` FROM sessions s WHERE s.owner_id = @owner AND s.deleted_at IS NULL`

	counted := mine + ` AND s.owner_id <> ''` // sessions_counted
	if q.TemplateIDPrefix != "" {
		mine += ` AND ` + ofTemplate
		counted = mine
	}

	var batch pgx.Batch
	batch.Queue(`SELECT count(*)`+counted, args).
		QueryRow(func(row pgx.Row) error { return row.Scan(&page.Total) })
	// Ids first: what is skipped before a late page costs an entry of the index.
	batch.Queue(`
		SELECT `+listedColumns+`
		FROM   (SELECT s.id `+mine+` ORDER BY s.is_pinned DESC, s.id DESC LIMIT @limit OFFSET @offset) page
		JOIN   sessions s ON s.id = page.id
		ORDER  BY s.is_pinned DESC, s.id DESC`, args).
		Query(func(rows pgx.Rows) (err error) {
			page.Items, err = pgx.CollectRows(rows, pgx.RowToStructByName[domain.Session])
			return err
		})

	return page, db.Pool.SendBatch(ctx, &batch).Close()
}
