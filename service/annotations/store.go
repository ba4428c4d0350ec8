// Package annotations is the room of annotations: marks and ratings that users attach to
// sessions, turns, tool calls and nodes of DAG runs.
package annotations

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/annotation"
	"everloop/infra/postgres/pg"
)

// Store reads and writes annotations. Callers check that the user can see the payload.
type Store struct{ db *pg.DB }

// New returns a store on a database.
func New(db *pg.DB) *Store { return &Store{db} }

const annotationColumns = `id, payload_id, kind, target, value, text, labels, author_id, created_at, updated_at, resolved_at`

// AnnotationPayload returns the session of a turn or tool call, the session with the id, or the
// production solution of a node of a DAG run. Otherwise the error is payload_not_found.
func (s *Store) AnnotationPayload(ctx context.Context, id string) (annotation.Payload, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT $1::text AS id, session_id, '' AS solution_id, false AS is_session FROM entries WHERE id = $1
		UNION ALL SELECT $1, session_id, '', false FROM tool_calls WHERE id = $1
		UNION ALL SELECT $1, id, '', true FROM sessions WHERE id = $1
		UNION ALL SELECT $1, '', solution_id, false FROM dag_run_nodes WHERE id = $1
		LIMIT 1`, id)

	payload, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[annotation.Payload])
	if errors.Is(err, pgx.ErrNoRows) {
		return payload, annotation.PayloadNotFound(id)
	}

	return payload, pg.Fault("find the payload of annotations", err)
}

// CheckAnnotationTarget rejects a target whose turn, block or tool call is not in the session.
func (s *Store) CheckAnnotationTarget(ctx context.Context, payload annotation.Payload, target *annotation.Target) error {
	if target == nil || target.TurnID == nil && target.ToolCallID == nil && target.BlockIndex == nil {
		return nil
	}

	turn := domain.TurnID(payload.ID)
	if target.TurnID != nil {
		turn = *target.TurnID
	}

	var (
		blocks *int
		call   bool
	)

	err := s.db.Pool.QueryRow(ctx, `
		SELECT (SELECT jsonb_array_length(blocks) FROM entries WHERE id = $2 AND session_id = $1),
		       EXISTS (SELECT FROM tool_calls WHERE id = $3 AND session_id = $1)`,
		payload.SessionID, turn, target.ToolCallID).Scan(&blocks, &call)
	switch {
	case err != nil:
		return pg.Fault("check the target of an annotation", err)
	case target.TurnID != nil && blocks == nil:
		return domain.Invalidf("body.target.turn_id", "must be a turn of the session")
	case target.ToolCallID != nil && !call:
		return domain.Invalidf("body.target.tool_call_id", "must be a tool call of the session")
	case target.BlockIndex != nil && (blocks == nil || *target.BlockIndex >= *blocks):
		return domain.Invalidf("body.target.block_index", "must be a block of the turn")
	}

	return nil
}

// CreateAnnotation stores an annotation. The error is too_many_annotations when the payload has
// annotation.MaxOfPayload already.
func (s *Store) CreateAnnotation(
	ctx context.Context, payload annotation.Payload, authorID string, in annotation.NewAnnotation,
) (made annotation.Annotation, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		// Concurrent creations for one payload would each miss the other in the count.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('annotations/' || $1, 0))`, payload.ID); err != nil {
			return err
		}

		made, err = insertAnnotation(ctx, tx, payload, authorID, in)

		return err
	})

	return made, pg.Fault("create annotation", err)
}

func insertAnnotation(
	ctx context.Context, tx pgx.Tx, payload annotation.Payload, authorID string, in annotation.NewAnnotation,
) (annotation.Annotation, error) {
	rows, _ := tx.Query(ctx, `
		INSERT INTO annotations (id, session_id, run_node, payload_id, kind, target, value, text, labels, author_id)
		SELECT @id, nullif(@session, ''), CASE WHEN @session = '' THEN @payload END, @payload, @kind, @target::jsonb, @value::jsonb,
		       @text, @labels::text[], @author
		WHERE  (SELECT count(*) FROM annotations WHERE payload_id = @payload) < @limit
		RETURNING `+annotationColumns,
		pgx.NamedArgs{
			"id": domain.NewID(), "session": payload.SessionID, "payload": payload.ID, "kind": in.Kind, "target": in.Target,
			"value": jsonOrNull(in.Value), "text": in.Text, "labels": in.Labels, "author": authorID, "limit": annotation.MaxOfPayload,
		})

	made, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[annotation.Annotation])
	if errors.Is(err, pgx.ErrNoRows) {
		return made, domain.Newf(
			domain.Conflict,
			"too_many_annotations",
			"%s has %d annotations; delete one",
			payload.ID,
			annotation.MaxOfPayload,
		)
	}

	return made, err
}

// Annotations returns a page of a payload's annotations, oldest first, and their total number.
func (s *Store) Annotations(ctx context.Context, payloadID string, offset, limit int) (page []annotation.Annotation, total int, err error) {
	var batch pgx.Batch
	batch.Queue(`SELECT `+annotationColumns+` FROM annotations WHERE payload_id = $1 ORDER BY id OFFSET $2
		LIMIT $3`, payloadID, offset, limit).
		Query(func(rows pgx.Rows) (err error) {
			page, err = pgx.CollectRows(rows, pgx.RowToStructByName[annotation.Annotation])
			return err
		})
	batch.Queue(`SELECT count(*) FROM annotations WHERE payload_id = $1`, payloadID).
		QueryRow(func(row pgx.Row) error { return row.Scan(&total) })

	return page, total, pg.Fault("list annotations", s.db.Pool.SendBatch(ctx, &batch).Close())
}

// Annotation returns one annotation of a payload, or annotation_not_found.
func (s *Store) Annotation(ctx context.Context, payloadID, id string) (annotation.Annotation, error) {
	rows, _ := s.db.Pool.Query(ctx, `SELECT `+annotationColumns+` FROM annotations WHERE id = $1 AND payload_id = $2`, id, payloadID)
	return oneAnnotation(rows, id, "read annotation")
}

// ChangeAnnotation sets the fields of change, or returns annotation_not_found.
func (s *Store) ChangeAnnotation(ctx context.Context, payloadID, id string, change annotation.Change) (annotation.Annotation, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		UPDATE annotations SET updated_at = now(),
		       value = CASE WHEN @set_value THEN @value::jsonb ELSE value END,
		       text = CASE WHEN @set_text THEN @text ELSE text END,
		       labels = coalesce(@labels::text[], labels),
		       resolved_at = CASE WHEN @resolved::boolean IS NULL THEN resolved_at
		                          WHEN @resolved THEN coalesce(resolved_at, now()) END
		WHERE  id = @id AND payload_id = @payload
		RETURNING `+annotationColumns,
		pgx.NamedArgs{
			"id": id, "payload": payloadID, "set_value": change.SetValue, "value": jsonOrNull(change.Value), "set_text": change.SetText,
			"text": change.Text, "labels": change.Labels, "resolved": change.Resolved,
		})

	return oneAnnotation(rows, id, "change annotation")
}

// DeleteAnnotation deletes an annotation, or returns annotation_not_found.
func (s *Store) DeleteAnnotation(ctx context.Context, payloadID, id string) error {
	tag, err := s.db.Pool.Exec(ctx, `DELETE FROM annotations WHERE id = $1 AND payload_id = $2`, id, payloadID)
	if err == nil && tag.RowsAffected() == 0 {
		return annotation.NotFound(id)
	}

	return pg.Fault("delete annotation", err)
}

func oneAnnotation(rows pgx.Rows, id, doing string) (annotation.Annotation, error) {
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[annotation.Annotation])
	if errors.Is(err, pgx.ErrNoRows) {
		return found, annotation.NotFound(id)
	}

	return found, pg.Fault(doing, err)
}

// jsonOrNull returns nil for no value, so that the column is NULL and not the JSON value null.
func jsonOrNull(value any) *any {
	if value == nil {
		return nil
	}

	return &value
}
