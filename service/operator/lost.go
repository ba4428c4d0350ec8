package operator

import (
	"context"
	"slices"
	"strings"
	"sync"

	"everloop/domain"
	"everloop/domain/operator"
	"everloop/internal/durable"
)

// maxLookups bounds the looks at workflows of one list; maxLooks those of one page.
const (
	maxLookups = 8
	maxLooks   = 500
)

// lost lists open work that no open workflow carries, kind by kind. A page may hold
// fewer entries than asked for while there is another one.
func (s *Service) lost(ctx context.Context, q operator.RunQuery) (runs []operator.Run, next []byte, err error) {
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
		page, err := s.cfg.Store.OpenWork(ctx, kinds[0], after, q.Limit)
		if err != nil {
			return nil, nil, err
		}

		slices.SortFunc(page, func(a, b operator.Job) int { return strings.Compare(key(a), key(b)) })

		gone, err := s.gone(ctx, page)
		if err != nil {
			return nil, nil, err
		}

		for i, job := range page {
			if gone[i] && (q.SessionID == "" || job.SessionID == q.SessionID) && (q.OwnerID == "" || job.OwnerID == q.OwnerID) {
				if len(runs) == q.Limit {
					return runs, []byte(kinds[0] + "/" + after), nil
				}

				runs = append(runs, lostRun(kinds[0], page[i]))
			}

			after = key(job)
		}

		looked += len(page)
		if len(page) < q.Limit {
			kinds, after = kinds[1:], ""
		}

		if len(kinds) > 0 && (len(runs) == q.Limit || looked >= maxLooks) {
			return runs, []byte(kinds[0] + "/" + after), nil
		}
	}

	return runs, nil, nil
}

// key is what the work of a kind is listed by.
func key(job operator.Job) string {
	_, id := durable.KindOfWorkflow(job.WorkflowID)
	return id
}

func lostRun(kind string, job operator.Job) operator.Run {
	run := operator.Run{WorkflowID: job.WorkflowID, Kind: kind, Status: operator.RunLost, StartedAt: job.CreatedAt}
	describe(&run, &job)

	return run
}

// gone says of each piece of work whether no open workflow carries it.
func (s *Service) gone(ctx context.Context, jobs []operator.Job) ([]bool, error) {
	gone, faults := make([]bool, len(jobs)), make([]error, len(jobs))

	var looks sync.WaitGroup

	slots := make(chan struct{}, maxLookups)
	for i, job := range jobs {
		slots <- struct{}{}

		looks.Go(func() {
			defer func() { <-slots }()

			var state domain.RunState

			state, _, faults[i] = s.cfg.Engine.Describe(ctx, job.WorkflowID, "")
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
