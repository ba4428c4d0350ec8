package dagruns

import (
	"strings"

	"everloop/domain"
)

// used are the columns that count what a chat, or the attempts of a node, have used.
var used = []string{"input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_nano", "uncosted_tokens"}

// usedOf are those columns of the row with the given name, 0 where there is no row.
func usedOf(row string) string {
	columns := make([]string, len(used))
	for i, column := range used {
		columns[i] = "coalesce(" + row + "." + column + ", 0)"
	}

	return strings.Join(columns, ", ")
}

// usedByRun sums them over the nodes of the run r that count.
func usedByRun() string {
	sums := make([]string, len(used))
	for i, column := range used {
		sums[i] = "(SELECT coalesce(sum(u." + column + "), 0)::bigint FROM dag_run_nodes u WHERE u.run_id = r.id AND NOT u.superseded)"
	}

	return strings.Join(sums, ", ")
}

// usedFields returns where those columns go.
func usedFields(u *domain.Usage) []any {
	return []any{&u.InputTokens, &u.OutputTokens, &u.CacheReadTokens, &u.CacheWriteTokens, &u.Cost, &u.UncostedTokens}
}
