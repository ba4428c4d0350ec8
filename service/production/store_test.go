package production_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/dagrun"
	"everloop/domain/production"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
	"everloop/service/dagruns"
	documents "everloop/service/production"
)

// stores are the stores of the database and of production solutions.
type stores struct {
	*postgres.DB
	*documents.Store
}

func open(t *testing.T) *stores {
	t.Helper()

	db := pgtest.Open(t)

	return &stores{db, documents.NewStore(db.DB)}
}

func content(by domain.User, text string) production.NewDocument {
	return production.NewDocument{Content: []byte(text), Digest: "sha256:" + text, CreatedBy: by.ID}
}

func create(t *testing.T, db *stores, owner domain.User, name string) production.Solution {
	t.Helper()
	made, err := db.CreateProdSolution(t.Context(), production.NewSolution{OwnerID: owner.ID, Name: name},
		map[domain.DocumentKind]production.NewDocument{
			domain.DocumentDAG: content(owner, "{}"), domain.DocumentArchitecture: content(owner, "[]"),
		})
	require.NoError(t, err)

	return made
}

func requireCode(t *testing.T, code string, err error) *domain.Error {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, code, domain.AsError(err).Code, err.Error())

	return domain.AsError(err)
}

func documentBytes(t *testing.T, db *stores, id string) (counted, stored int) {
	t.Helper()
	require.NoError(t, db.Pool.QueryRow(t.Context(), `
		SELECT p.document_bytes, (SELECT coalesce(sum(octet_length(content)), 0) FROM prod_document_versions WHERE solution_id = p.id)
		FROM prod_solutions p WHERE p.id = $1`, id).Scan(&counted, &stored))

	return counted, stored
}

func TestStore_documents(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	ann, ben := pgtest.User(t, db.DB, "ann", false), pgtest.User(t, db.DB, "ben", false)
	made := create(t, db, ann, "first")
	require.Equal(t, production.SolutionDraft, made.Status)
	require.Equal(t, production.DocumentState{CurrentVersion: 1}, made.DAG)

	two, err := db.SaveDocument(ctx, ann, made.ID, domain.DocumentDAG, 1, content(ann, "two"))
	require.NoError(t, err)
	require.Equal(t, 2, two.Version)
	stale := requireCode(t, "version_conflict", func() error {
		_, err := db.SaveDocument(ctx, ann, made.ID, domain.DocumentDAG, 1, content(ann, "other"))
		return err
	}())
	require.Equal(t, domain.VersionConflict{CurrentVersion: 2, ChangedBy: ann.ID, ChangedAt: two.CreatedAt}, *stale.Version)

	published, err := db.PublishDocument(ctx, ann, made.ID, domain.DocumentDAG, 0, nil, "go")
	require.NoError(t, err)
	require.Equal(t, 2, published.Version)
	require.Nil(t, published.PreviousVersion)

	back, err := db.RollbackDocument(ctx, ann, made.ID, domain.DocumentDAG, 1, "back")
	require.NoError(t, err)
	require.Equal(t, 3, back.Version)
	require.Equal(t, "sha256:{}", back.Digest)

	fresh := content(ann, "four")
	published, err = db.PublishDocument(ctx, ann, made.ID, domain.DocumentDAG, 3, &fresh, "")
	require.NoError(t, err)
	require.Equal(t, 4, published.Version)
	require.Equal(t, 2, *published.PreviousVersion)

	read, err := db.Document(ctx, ann, made.ID, domain.DocumentDAG, 0)
	require.NoError(t, err)
	require.Equal(t, "four", string(read.Content))
	require.True(t, read.Published)

	old, err := db.Document(ctx, ann, made.ID, domain.DocumentDAG, 1)
	require.NoError(t, err)
	require.Equal(t, "{}", string(old.Content))
	require.Equal(t, 4, old.CurrentVersion)

	requireCode(t, "version_published", db.DeleteDocumentVersion(ctx, ann, made.ID, domain.DocumentDAG, 4))
	requireCode(t, "version_in_use", db.DeleteDocumentVersion(ctx, ann, made.ID, domain.DocumentArchitecture, 1))
	require.NoError(t, db.DeleteDocumentVersion(ctx, ann, made.ID, domain.DocumentDAG, 2))
	requireCode(t, "version_not_found", db.DeleteDocumentVersion(ctx, ann, made.ID, domain.DocumentDAG, 2))
	page, total, err := db.DocumentVersions(ctx, ann, made.ID, domain.DocumentDAG, 2, 1)
	require.NoError(t, err)
	require.Equal(t, 3, total)
	require.Equal(t, []int{3, 1}, []int{page[0].Version, page[1].Version})
	counted, stored := documentBytes(t, db, made.ID)
	require.Equal(t, stored, counted)

	_, err = db.Document(ctx, ben, made.ID, domain.DocumentDAG, 0)
	requireCode(t, "prod_solution_not_found", err)
	_, err = db.SaveDocument(ctx, ben, made.ID, domain.DocumentDAG, 4, content(ben, "x"))
	requireCode(t, "prod_solution_not_found", err)
	_, _, err = db.DocumentVersions(ctx, ben, made.ID, domain.DocumentDAG, 1, 0)
	requireCode(t, "prod_solution_not_found", err)
	_, err = db.DeleteProdSolution(ctx, ben, made.ID)
	requireCode(t, "prod_solution_not_found", err)

	archived := production.SolutionArchived
	_, err = db.ChangeProdSolution(ctx, ann, made.ID, func(s production.Solution) (production.SolutionChange, error) {
		require.Equal(t, production.SolutionPublished, s.Status, "since its DAG is")
		return production.SolutionChange{Status: &archived}, s.Move(archived)
	})
	require.NoError(t, err)
	_, err = db.SaveDocument(ctx, ann, made.ID, domain.DocumentDAG, 4, content(ann, "x"))
	requireCode(t, "prod_solution_archived", err)
	deleted, err := db.DeleteProdSolution(ctx, ann, made.ID)
	require.NoError(t, err)
	require.True(t, deleted)

	var left int
	require.NoError(t, db.Pool.QueryRow(ctx, `SELECT count(*) FROM prod_document_versions`).Scan(&left))
	require.Zero(t, left)
}

// Of writers that start at the same version one wins.
func TestStore_SaveDocument_atOnce(t *testing.T) {
	t.Parallel()
	db := open(t)
	ann := pgtest.User(t, db.DB, "ann", false)
	made := create(t, db, ann, "first")

	const writers = 8

	errs := make([]error, writers)

	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			_, errs[i] = db.SaveDocument(t.Context(), ann, made.ID, domain.DocumentDAG, 1, content(ann, strings.Repeat("x", i+1)))
		})
	}

	wg.Wait()

	won := 0

	for _, err := range errs {
		if err == nil {
			won++
			continue
		}

		requireCode(t, "version_conflict", err)
	}

	require.Equal(t, 1, won)
	counted, stored := documentBytes(t, db, made.ID)
	require.Equal(t, stored, counted)
}

func TestStore_limits(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	ann := pgtest.User(t, db.DB, "ann", false)
	made := create(t, db, ann, "first")
	_, err := db.Pool.Exec(ctx, `UPDATE prod_solutions SET document_bytes = $1`, production.MaxUserDocuments-3)
	require.NoError(t, err)
	_, err = db.SaveDocument(ctx, ann, made.ID, domain.DocumentDAG, 1, content(ann, "four"))
	requireCode(t, "document_quota", err)
	_, err = db.SaveDocument(ctx, ann, made.ID, domain.DocumentDAG, 1, content(ann, "fit"))
	require.NoError(t, err)
	_, err = db.Pool.Exec(ctx, `
		INSERT INTO prod_document_versions (solution_id, kind, version, content, digest, node_count, edge_count, created_by)
		SELECT $1, 'architecture', n, '', '', 0, 0, $2 FROM generate_series(2, $3) n`, made.ID, ann.ID, production.MaxDocumentVersions)
	require.NoError(t, err)
	_, err = db.SaveDocument(ctx, ann, made.ID, domain.DocumentArchitecture, 0, content(ann, ""))
	requireCode(t, "version_limit", err)

	_, err = db.Pool.Exec(ctx, `
		INSERT INTO prod_solutions (id, owner_id, name) SELECT 'other-' || n, $1, 'x'
		    FROM generate_series(2, $2) n`, ann.ID, production.MaxSolutions)
	require.NoError(t, err)
	_, err = db.CreateProdSolution(ctx, production.NewSolution{OwnerID: ann.ID, Name: "more"}, nil)
	requireCode(t, "prod_solution_limit", err)
}

func TestStore_sessionsOfASolution(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	ann, ben := pgtest.User(t, db.DB, "ann", false), pgtest.User(t, db.DB, "ben", false)
	session, err := db.CreateSession(ctx, ann.ID, domain.NewSession{})
	require.NoError(t, err)
	made := create(t, db, ann, "first")
	bound, err := db.ChangeProdSolution(ctx, ann, made.ID, func(production.Solution) (production.SolutionChange, error) {
		return production.SolutionChange{SessionID: &session.ID}, nil
	})
	require.NoError(t, err)
	require.Equal(t, session.ID, *bound.SessionID)
	require.NoError(t, db.DeleteSession(ctx, session.ID))
	bound, err = db.ProdSolution(ctx, ann, made.ID)
	require.NoError(t, err)
	require.Nil(t, bound.SessionID)

	create(t, db, ann, "second")
	page, total, err := db.ProdSolutions(ctx, ann.ID, 1, 0)
	require.NoError(t, err)
	require.Equal(t, 2, total)
	require.Equal(t, "second", page[0].Name)

	known, err := db.KnownProdSolutions(ctx, ben, []string{made.ID, "x"})
	require.NoError(t, err)
	require.Empty(t, known)
	known, err = db.KnownProdSolutions(ctx, ann, []string{made.ID, "x"})
	require.NoError(t, err)
	require.Equal(t, []string{made.ID}, known)
}

// The newest run has the same status in the solution as among the runs, whatever its
// units wait for.
func TestStore_lastRun(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	ann := pgtest.User(t, db.DB, "ann", false)
	solution := create(t, db, ann, "runs").ID
	run := dagrun.New{
		ID: domain.NewID(), SolutionID: solution, OwnerID: ann.ID, Version: 1, Trigger: dagrun.TriggerAPI, Inputs: []byte(`{}`),
		Nodes: []string{"a", "b"},
	}
	require.NoError(t, dagruns.NewStore(db.DB.DB).CreateDAGRun(ctx, run))

	set := func(status, a, b string) {
		_, err := db.Pool.Exec(ctx, `UPDATE dag_runs SET status = $2 WHERE id = $1`, run.ID, status)
		require.NoError(t, err)
		_, err = db.Pool.Exec(ctx, `
			UPDATE dag_run_nodes SET status = CASE node_id WHEN 'a' THEN $2 ELSE $3 END, child_id = 'x' WHERE run_id = $1`, run.ID, a, b)
		require.NoError(t, err)
	}

	for _, c := range []struct{ run, a, b, want string }{
		{"pending", "pending", "pending", "pending"},
		{"running", "pending", "pending", "running"},
		{"running", "running", "waiting", "running"},
		{"running", "completed", "waiting", "waiting"},
		{"running", "ready", "waiting", "waiting"},
		{"failed", "failed", "waiting", "failed"},
	} {
		set(c.run, c.a, c.b)

		listed, err := dagruns.NewStore(db.DB.DB).DAGRun(ctx, ann, solution, run.ID)
		require.NoError(t, err)
		require.EqualValues(t, c.want, listed.Status, c)

		shown, err := db.ProdSolution(ctx, ann, solution)
		require.NoError(t, err)
		require.Equal(t, &production.LastRun{ID: run.ID, Status: c.want}, shown.LastRun, c)
	}
}
