package work

import (
	"context"
	"slices"
	"strings"
	"sync"

	"everloop/domain"
	"everloop/domain/operator"
)

// lost lists open work that no open workflow carries, kind by kind. A page may hold
// fewer entries than asked for while there is another one.
func (o *Operator) lost(ctx context.Context, q operator.RunQuery) (runs []operator.Run, next []byte, err error) {
	kinds := operator.RunKinds
	if q.Kind != "" {
		kinds = []string{q.Kind}
	}

	after := ""

	if len(q.Page) > 0 {
		kind, id, found := strings.Cut(string(q.Page), "/")

		from := slices.Index(kinds, kind)
		if !found || from < 0 {
			return nil, nil, domain.Invalidf("query.page", "is not one that this list gave")
		}

		kinds, after = kinds[from:], id
	}

	looked := 0

	for len(kinds) > 0 {
		ids, err := o.store.OpenIDs(ctx, kinds[0], after, q.Limit)
		if err != nil {
			return nil, nil, err
		}

		page, err := o.store.items(ctx, kinds[0], ids)
		if err != nil {
			return nil, nil, err
		}

		gone, err := o.gone(ctx, page)
		if err != nil {
			return nil, nil, err
		}

		for i, item := range page {
			if gone[i] && (q.SessionID == "" || item.SessionID == q.SessionID) && (q.OwnerID == "" || item.OwnerID == q.OwnerID) {
				if len(runs) == q.Limit {
					return runs, []byte(kinds[0] + "/" + after), nil
				}

				runs = append(runs, lostRun(kinds[0], item.Job))
			}

			after = item.ID
		}

		looked += len(page)
		if len(ids) < q.Limit {
			kinds, after = kinds[1:], ""
		}

		if len(kinds) > 0 && (len(runs) == q.Limit || looked >= maxLooks) {
			return runs, []byte(kinds[0] + "/" + after), nil
		}
	}

	return runs, nil, nil
}

func lostRun(kind string, job operator.Job) operator.Run {
	run := operator.Run{WorkflowID: job.WorkflowID, Kind: kind, Status: operator.RunLost, StartedAt: job.CreatedAt}
	describe(&run, &job)

	return run
}

// gone reports of each piece of work whether no open workflow carries it.
func (o *Operator) gone(ctx context.Context, items []Item) ([]bool, error) {
	gone, faults := make([]bool, len(items)), make([]error, len(items))

	var looks sync.WaitGroup

	slots := make(chan struct{}, maxConcurrent)
	for i, item := range items {
		slots <- struct{}{}

		looks.Go(func() {
			defer func() { <-slots }()

			var state domain.RunState

			state, _, faults[i] = o.runs.Describe(ctx, item.WorkflowID, "")
			gone[i] = state == domain.RunClosed || state == domain.RunUnknown
		})
	}

	looks.Wait()

	for _, err := range faults {
		if err != nil {
			return nil, unavailable(err)
		}
	}

	return gone, nil
}
