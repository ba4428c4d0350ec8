package pg

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Queryer is a pool or a transaction.
type Queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// NullIfEmpty returns a list, or raw JSON, as the value of a parameter: null when it is
// empty.
func NullIfEmpty[S ~[]E, E any](list S) any {
	if len(list) == 0 {
		return nil
	}

	return list
}
