package dagruns

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/dag"
	"everloop/domain/dagrun"
	"everloop/infra/postgres/pg"
)

// decodeFiles parses what was captured of a unit; nil: nothing was.
func decodeFiles(text *string) (captured *dagrun.Captured, err error) {
	if text != nil {
		captured = &dagrun.Captured{}
		err = json.Unmarshal([]byte(*text), captured)
	}

	return captured, err
}

// filesOf reads what was captured of a unit in its attempt; nil: nothing was.
func filesOf(ctx context.Context, tx pgx.Tx, unitID string) (*dagrun.Captured, error) {
	var text *string
	if err := tx.QueryRow(ctx, `SELECT files FROM dag_run_nodes WHERE id = $1`, unitID).Scan(&text); err != nil {
		return nil, err
	}

	return decodeFiles(text)
}

// fileSetsOf reads the output files of a node that has ended well.
func fileSetsOf(ctx context.Context, q pg.Queryer, runID, nodeID string) ([]dagrun.FileSet, error) {
	rows, _ := q.Query(ctx, `
		SELECT files FROM dag_run_nodes
		WHERE  run_id = $1 AND node_id = $2 AND item = -1 AND NOT superseded AND status IN ('completed', 'reused')`, runID, nodeID)

	text, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[*string])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}

	if err != nil {
		return nil, err
	}

	captured, err := decodeFiles(text)
	if captured == nil || err != nil {
		return nil, err
	}

	return captured.Sets, nil
}

func (s *Store) fileSets(ctx context.Context, runID, nodeID string) ([]dagrun.FileSet, error) {
	sets, err := fileSetsOf(ctx, s.db.Pool, runID, nodeID)
	return sets, pg.Fault("read the files of a node of a DAG run", err)
}

// placed returns where the files that a node is given are put, by its inputs_files.
func placed(ctx context.Context, tx pgx.Tx, runID string, n dag.Node) (
	all []dagrun.Placement, given []dagrun.FilesFrom, failure *dagrun.NodeFailure, err error,
) {
	for _, in := range n.InputsFiles {
		sets, err := fileSetsOf(ctx, tx, runID, in.From)
		if err != nil {
			return nil, nil, nil, err
		}

		some, failure := dagrun.Place(in, sets)
		if failure != nil {
			return nil, nil, failure, nil
		}

		all, given = append(all, some...), append(given, dagrun.Given(in, some))
	}

	return all, given, nil, nil
}

// previous returns the unit that worked last in the workspace of a node, and its session; empty:
// none did. The session of a node that was not approved is that of the question.
func previous(ctx context.Context, tx pgx.Tx, run openRun, n dag.Node) (unitID string, sessionID domain.SessionID, err error) {
	err = tx.QueryRow(ctx, `
		SELECT coalesce(n.reused_from, n.id), n.session_id
		FROM   unnest($2::text[]) WITH ORDINALITY AS w (node_id, place)
		JOIN   dag_run_nodes n ON n.run_id = $1 AND n.node_id = w.node_id AND n.item = -1 AND NOT n.superseded
		WHERE  n.session_id IS NOT NULL AND n.status IN ('completed', 'reused', 'failed') AND n.error_code IS DISTINCT FROM $3
		ORDER  BY w.place LIMIT 1`, run.id, sourcesOf(run.graph, n), dagrun.CodeNotApproved).Scan(&unitID, &sessionID)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}

	return unitID, sessionID, err
}

// addFiles adds the files and the workspace that a node is given to its request.
func addFiles(ctx context.Context, tx pgx.Tx, run openRun, n dag.Node, request *dagrun.Request) (failure *dagrun.NodeFailure, err error) {
	if !n.TakesFiles() {
		return nil, nil
	}

	_, request.Files, failure, err = placed(ctx, tx, run.id, n)
	if err == nil && failure == nil {
		request.Workspace, _, err = previous(ctx, tx, run, n)
	}

	return failure, err
}

// placements reads the session whose workspace an attempt continues, empty: it continues none, and
// the files that are put into the workspace of the attempt.
func (s *Store) placements(ctx context.Context, in contract.DAGAttempt) (from domain.SessionID, all []dagrun.Placement, err error) {
	err = s.step(ctx, in.DAGTry, func(tx pgx.Tx, run openRun) error {
		n := run.node(in.NodeID)

		var failure *dagrun.NodeFailure
		if all, _, failure, err = placed(ctx, tx, run.id, n); err != nil {
			return err
		}

		if failure != nil { // it was found when the node was activated
			return domain.Newf(domain.Conflict, failure.Code, "%s", failure.Message)
		}

		_, from, err = previous(ctx, tx, run, n)

		return err
	})

	return from, all, pg.Fault("read the files of a node of a DAG run", err)
}

// capturing reads an attempt whose files are captured, and records that its run has files.
func (s *Store) capturing(ctx context.Context, in contract.DAGAttempt) (work dagrun.Work, err error) {
	err = s.step(ctx, in.DAGTry, func(tx pgx.Tx, run openRun) error {
		work.Node, work.Run = run.node(in.NodeID), dagrun.WorkRun{ID: run.id, OwnerID: run.ownerID}
		if work.Unit, err = s.unitOf(ctx, tx, in); err != nil {
			return err
		}

		_, err = tx.Exec(ctx, `
			INSERT INTO dag_run_snapshots (run_id) VALUES ($1)
			ON     CONFLICT (run_id) DO UPDATE SET captured_at = clock_timestamp()`, run.id)

		return err
	})

	return work, pg.Fault("capture the files of a node of a DAG run", err)
}

// storeFiles records what was captured of an attempt.
func (s *Store) storeFiles(ctx context.Context, in contract.DAGAttempt, captured dagrun.Captured) error {
	encoded, err := json.Marshal(captured)
	if err != nil {
		return err
	}

	err = s.step(ctx, in.DAGTry, func(tx pgx.Tx, run openRun) error {
		_, err := tx.Exec(ctx, `
			UPDATE dag_run_nodes SET files = $5
			WHERE  run_id = $1 AND node_id = $2 AND item = $3 AND attempt = $4 AND NOT superseded AND status = 'running'`,
			run.id, in.NodeID, in.Item, in.Attempt, string(encoded))

		return err
	})

	return pg.Fault("store the files of a node of a DAG run", err)
}

// countFiles adds files to those of a run, unless they are too many together.
func countFiles(ctx context.Context, tx pgx.Tx, runID string, captured dagrun.Captured) (*dagrun.NodeFailure, error) {
	files, bytes := captured.Total()

	tag, err := tx.Exec(ctx, `
		UPDATE dag_runs SET files = files + $2, file_bytes = file_bytes + $3
		WHERE  id = $1 AND files + $2 <= $4 AND file_bytes + $3 <= $5`, runID, files, bytes, dagrun.MaxRunFiles, dagrun.MaxRunFileBytes)
	if err != nil || tag.RowsAffected() > 0 {
		return nil, err
	}

	return dagrun.FilesTooLarge(files, bytes), nil
}

// gatherFiles gives a map node the files of its items.
func gatherFiles(ctx context.Context, tx pgx.Tx, runID string, n dag.Node) error {
	rows, _ := tx.Query(ctx, `
		SELECT files FROM dag_run_nodes
		WHERE  run_id = $1 AND node_id = $2 AND item >= 0 AND NOT superseded AND status = 'completed' AND files IS NOT NULL
		ORDER  BY item`, runID, n.ID)

	texts, err := pgx.CollectRows(rows, pgx.RowTo[*string])
	if err != nil {
		return err
	}

	all := dagrun.Captured{Sets: []dagrun.FileSet{}}

	for _, text := range texts {
		captured, err := decodeFiles(text)
		if err != nil {
			return err
		}

		all.Sets = append(all.Sets, captured.Sets...)
	}

	encoded, err := json.Marshal(all)
	if err != nil {
		return err
	}

	_, err = tx.Exec(ctx, `UPDATE dag_run_nodes SET files = $3 WHERE run_id = $1 AND node_id = $2 AND item = -1 AND NOT superseded`,
		runID, n.ID, string(encoded))

	return err
}

// deletedWithFiles lists deleted runs whose files exist. A capture that was under way when its
// run was deleted has ended by then: the age exceeds the time of the activity.
func (s *Store) deletedWithFiles(ctx context.Context, limit int) ([]string, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT run_id FROM dag_run_snapshots s
		WHERE  captured_at < now() - interval '2 hours' AND NOT EXISTS (SELECT 1 FROM dag_runs r WHERE r.id = s.run_id)
		LIMIT  $1`, limit)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])

	return ids, pg.Fault("list deleted DAG runs with files", err)
}

// forgetFiles records that the files of a deleted run are removed.
func (s *Store) forgetFiles(ctx context.Context, runID string) error {
	_, err := s.db.Pool.Exec(ctx, `DELETE FROM dag_run_snapshots WHERE run_id = $1`, runID)
	return pg.Fault("forget the files of a DAG run", err)
}
