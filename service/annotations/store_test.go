package annotations_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/annotation"
	"everloop/infra/postgres/pgtest"
	"everloop/service/annotations"
)

func TestStore_CreateAnnotation_limitHoldsInParallel(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.Open(t), t.Context()
	ann := pgtest.User(t, db, "ann", false)
	session, err := db.CreateSession(ctx, ann.ID, domain.NewSession{})
	require.NoError(t, err)

	store, payload := annotations.New(db.DB), annotation.Payload{ID: string(session.ID), SessionID: session.ID, IsSession: true}
	create := func() error {
		_, err := store.CreateAnnotation(ctx, payload, ann.ID, annotation.NewAnnotation{Kind: "bookmark", Labels: []string{}})

		return err
	}
	require.NoError(t, create())

	_, err = db.Pool.Exec(ctx, `
		INSERT INTO annotations (id, session_id, payload_id, kind, target, labels, author_id)
		SELECT 'a' || n, session_id, payload_id, kind, target, labels, author_id FROM annotations, generate_series(1, $1) n`,
		annotation.MaxOfPayload-2)
	require.NoError(t, err)

	var (
		made  atomic.Int32
		group sync.WaitGroup
	)
	for range 8 {
		group.Go(func() {
			if create() == nil {
				made.Add(1)
			}
		})
	}

	group.Wait()
	require.EqualValues(t, 1, made.Load())
}
