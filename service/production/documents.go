package production

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/production"
	"everloop/infra/postgres/pg"
)

// versionColumns select a domain.DocumentVersion from the rows v and d.
const versionColumns = `
	v.version, v.digest, v.message, v.created_by, v.created_at, v.version IS NOT DISTINCT FROM d.published, v.node_count, v.edge_count,
	(SELECT count(*) FROM dag_runs r WHERE v.kind = 'dag' AND r.solution_id = v.solution_id AND r.version = v.version)`

const versionTables = `
	prod_document_versions v
	JOIN prod_documents d ON d.solution_id = v.solution_id AND d.kind = v.kind`

func scanVersion(row pgx.CollectableRow) (domain.DocumentVersion, error) {
	var v domain.DocumentVersion

	err := row.Scan(&v.Version, &v.Digest, &v.Message, &v.CreatedBy, &v.CreatedAt, &v.Published, &v.NodeCount, &v.EdgeCount, &v.Runs)

	return v, err
}

// Document returns a version of a document of a solution that the caller can see; version 0
// selects the newest.
func (s *Store) Document(ctx context.Context, caller domain.User, solutionID string, kind domain.DocumentKind, version int) (
	production.StoredDocument, error,
) {
	if _, err := solution(ctx, s.db.Pool, caller, solutionID, ""); err != nil {
		return production.StoredDocument{}, pg.Fault("read production solution", err)
	}

	found, err := readDocument(ctx, s.db.Pool, solutionID, kind, version)

	return found, pg.Fault("read document", err)
}

func readDocument(
	ctx context.Context,
	q pg.Queryer,
	solutionID string,
	kind domain.DocumentKind,
	version int,
) (production.StoredDocument, error) {
	rows, _ := q.Query(ctx, `
		SELECT `+versionColumns+`, d.latest, d.published, v.content
		FROM   `+versionTables+`
		WHERE  v.solution_id = $1 AND v.kind = $2 AND v.version = CASE $3::integer WHEN 0 THEN d.latest ELSE $3::integer END`,
		solutionID, kind, version)

	found, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (d production.StoredDocument, err error) {
		err = row.Scan(&d.Version, &d.Digest, &d.Message, &d.CreatedBy, &d.CreatedAt, &d.Published, &d.NodeCount, &d.EdgeCount, &d.Runs,
			&d.CurrentVersion, &d.PublishedVersion, &d.Content)

		return d, err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return found, production.VersionNotFound(version)
	}

	return found, err
}

// DocumentVersions returns a page of the versions of a document, newest first, and their
// total number.
func (s *Store) DocumentVersions(ctx context.Context, caller domain.User, solutionID string, kind domain.DocumentKind, limit, offset int) (
	page []domain.DocumentVersion, total int, err error,
) {
	if _, err := solution(ctx, s.db.Pool, caller, solutionID, ""); err != nil {
		return nil, 0, pg.Fault("read production solution", err)
	}

	var batch pgx.Batch
	batch.Queue(`
		SELECT `+versionColumns+` FROM `+versionTables+`
		WHERE  v.solution_id = $1 AND v.kind = $2 ORDER BY v.version DESC LIMIT $3 OFFSET $4`, solutionID, kind, limit, offset).
		Query(func(rows pgx.Rows) (err error) {
			page, err = pgx.CollectRows(rows, scanVersion)
			return err
		})
	batch.Queue(`SELECT count(*) FROM prod_document_versions WHERE solution_id = $1 AND kind = $2`, solutionID, kind).
		QueryRow(func(row pgx.Row) error { return row.Scan(&total) })

	return page, total, pg.Fault("list versions", s.db.Pool.SendBatch(ctx, &batch).Close())
}

// SaveDocument adds a version. Unless base is 0 it must be the newest version: the error
// version_conflict names the newest one and its author.
func (s *Store) SaveDocument(ctx context.Context, caller domain.User, solutionID string, kind domain.DocumentKind, base int,
	in production.NewDocument,
) (made domain.DocumentVersion, err error) {
	err = s.change(ctx, caller, solutionID, func(tx pgx.Tx, found production.Solution) error {
		made, err = save(ctx, tx, found, kind, base, in)
		return err
	})

	return made, pg.Fault("save document", err)
}

// PublishDocument publishes a version; 0 selects the newest. A document in is first saved
// with version as its base, as SaveDocument does, and the new version is published.
func (s *Store) PublishDocument(ctx context.Context, caller domain.User, solutionID string, kind domain.DocumentKind, version int,
	in *production.NewDocument, message string,
) (published production.PublishedDocument, err error) {
	err = s.change(ctx, caller, solutionID, func(tx pgx.Tx, found production.Solution) error {
		if in != nil {
			made, err := save(ctx, tx, found, kind, version, *in)
			if err != nil {
				return err
			}

			version = made.Version
		}

		stored, err := readDocument(ctx, tx, solutionID, kind, version)
		if err != nil {
			return err
		}

		published = production.PublishedDocument{
			Version:         stored.Version,
			PublishedAt:     time.Now().UTC().Truncate(time.Microsecond),
			PublishedBy:     caller.ID,
			Digest:          stored.Digest,
			Message:         message,
			PreviousVersion: stored.PublishedVersion,
		}

		var batch pgx.Batch
		batch.Queue(`UPDATE prod_documents SET published = $3 WHERE solution_id = $1 AND kind = $2`, solutionID, kind, stored.Version)

		if kind == domain.DocumentDAG {
			batch.Queue(`UPDATE prod_solutions SET status = 'published' WHERE id = $1`, solutionID)
		}

		return tx.SendBatch(ctx, &batch).Close()
	})

	return published, pg.Fault("publish document", err)
}

// RollbackDocument adds a version with the content of an earlier one.
func (s *Store) RollbackDocument(
	ctx context.Context,
	caller domain.User,
	solutionID string,
	kind domain.DocumentKind,
	from int,
	message string,
) (
	made domain.DocumentVersion, err error,
) {
	err = s.change(ctx, caller, solutionID, func(tx pgx.Tx, found production.Solution) error {
		stored, err := readDocument(ctx, tx, solutionID, kind, from)
		if err != nil {
			return err
		}

		made, err = save(ctx, tx, found, kind, 0, production.NewDocument{
			Content: stored.Content, Digest: stored.Digest, Message: message, NodeCount: stored.NodeCount, EdgeCount: stored.EdgeCount,
			CreatedBy: caller.ID,
		})

		return err
	})

	return made, pg.Fault("roll back document", err)
}

// DeleteDocumentVersion deletes a version that is not published, has no unfinished runs and
// is not the only one. After the newest version is deleted, the previous one is the newest.
func (s *Store) DeleteDocumentVersion(
	ctx context.Context,
	caller domain.User,
	solutionID string,
	kind domain.DocumentKind,
	version int,
) error {
	err := s.change(ctx, caller, solutionID, func(tx pgx.Tx, _ production.Solution) error {
		stored, err := readDocument(ctx, tx, solutionID, kind, version)
		switch {
		case err != nil:
			return err
		case stored.Published:
			return domain.Newf(domain.Conflict, "version_published", "version %d is published: publish another one first", version)
		}

		var runs, others bool

		err = tx.QueryRow(ctx, `
			SELECT $1 = 'dag' AND EXISTS (SELECT 1 FROM dag_runs WHERE solution_id = $2 AND version = $3 AND finished_at IS NULL),
			       EXISTS (SELECT 1 FROM prod_document_versions WHERE solution_id = $2 AND kind = $1 AND version <> $3)`,
			kind, solutionID, version).Scan(&runs, &others)
		switch {
		case err != nil:
			return err
		case runs:
			return domain.Newf(domain.Conflict, "version_in_use", "version %d has unfinished runs: wait for them or "+
				"cancel them", version)
		case !others:
			return domain.Newf(domain.Conflict, "version_in_use", "version %d is the only one: save another one first", version)
		}

		var batch pgx.Batch
		batch.Queue(`DELETE FROM prod_document_versions WHERE solution_id = $1 AND kind = $2 AND version = $3`, solutionID, kind, version)
		batch.Queue(`UPDATE prod_solutions SET document_bytes = document_bytes - $2 WHERE id = $1`, solutionID, len(stored.Content))
		batch.Queue(`
			UPDATE prod_documents
			SET    deleted = greatest(deleted, latest),
			       latest = (SELECT max(version) FROM prod_document_versions WHERE solution_id = $1 AND kind = $2)
			WHERE  solution_id = $1 AND kind = $2 AND latest = $3`, solutionID, kind, version)

		return tx.SendBatch(ctx, &batch).Close()
	})

	return pg.Fault("delete version", err)
}

// change runs fn while the rows of the solution are locked, and stores the time of the change.
// The solution must not be archived.
func (s *Store) change(ctx context.Context, caller domain.User, solutionID string, fn func(pgx.Tx, production.Solution) error) error {
	return s.db.InTx(ctx, func(tx pgx.Tx) error {
		found, err := solution(ctx, tx, caller, solutionID, "")
		if err != nil {
			return err
		}

		if err := found.MayChange(caller); err != nil {
			return err
		}
		// The row of the user is locked first in all transactions, which avoids deadlocks.
		if err := lockUser(ctx, tx, found.OwnerID); err != nil {
			return err
		}

		if found, err = solution(ctx, tx, caller, solutionID, "FOR NO KEY UPDATE OF p, d, a"); err != nil {
			return err
		}

		if found.Status == production.SolutionArchived {
			return domain.Newf(domain.Conflict, "prod_solution_archived", "the production solution is archived: change its status to "+
				"draft first")
		}

		if err := fn(tx, found); err != nil {
			return err
		}

		_, err = tx.Exec(ctx, `UPDATE prod_solutions SET updated_at = now() WHERE id = $1`, solutionID)

		return err
	})
}

// save adds a version on top of base. The caller has locked the solution.
func save(ctx context.Context, tx pgx.Tx, found production.Solution, kind domain.DocumentKind, base int, in production.NewDocument) (
	domain.DocumentVersion, error,
) {
	newest, err := readDocument(ctx, tx, found.ID, kind, 0)
	if err != nil {
		return domain.DocumentVersion{}, err
	}

	if base != 0 && base != newest.Version {
		return domain.DocumentVersion{}, domain.NewVersionConflict(newest.DocumentVersion)
	}

	return addVersion(ctx, tx, found.OwnerID, found.ID, kind, in)
}

// addVersion stores the next version within the limits of the owner. The caller has locked
// the owner's row.
func addVersion(ctx context.Context, tx pgx.Tx, ownerID, solutionID string, kind domain.DocumentKind, in production.NewDocument) (
	made domain.DocumentVersion, err error,
) {
	var (
		versions int
		bytes    int64
	)

	err = tx.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM prod_document_versions WHERE solution_id = $1 AND kind = $2),
		       (SELECT coalesce(sum(document_bytes), 0)::bigint FROM prod_solutions WHERE owner_id = $3)`,
		solutionID, kind, ownerID).Scan(&versions, &bytes)
	switch {
	case err != nil:
		return made, err
	case versions >= production.MaxDocumentVersions:
		return made, domain.Newf(
			domain.Conflict,
			"version_limit",
			"a document can have %d versions; delete some first",
			production.MaxDocumentVersions,
		)
	case bytes+int64(len(in.Content)) > production.MaxUserDocuments:
		return made, domain.Newf(domain.TooLarge, "document_quota",
			"the documents of a user can have %d bytes in total; delete old versions first", production.MaxUserDocuments)
	}

	rows, _ := tx.Query(ctx, `
		WITH d AS (
			UPDATE prod_documents SET latest = greatest(latest, deleted) + 1
			WHERE  solution_id = @solution AND kind = @kind RETURNING latest, published),
		bytes AS (UPDATE prod_solutions SET document_bytes = document_bytes + @bytes WHERE id = @solution),
		v AS (
			INSERT INTO prod_document_versions (solution_id, kind, version, content, digest, message, node_count, edge_count, created_by)
			SELECT @solution, @kind, d.latest, @content, @digest, @message, @nodes, @edges, @user FROM d
			RETURNING *)
		SELECT `+versionColumns+` FROM v, d`,
		pgx.NamedArgs{
			"solution": solutionID, "kind": kind, "content": string(in.Content), "digest": in.Digest, "message": in.Message,
			"nodes": in.NodeCount, "edges": in.EdgeCount, "user": in.CreatedBy, "bytes": len(in.Content),
		})

	return pgx.CollectExactlyOneRow(rows, scanVersion)
}
