package api

// list is an answer with all items of a kind.
type list[T any] struct {
	Items []T `json:"items" doc:"The entries of this page."`
	Total int `json:"total" doc:"Total number of entries." example:"1"`
}

func listOf[T any](items []T) list[T] { return list[T]{orEmpty(items), len(items)} }

// orEmpty keeps a missing list from becoming null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}

	return list
}

// value gives what an optional field holds, or its zero.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}

	return v
}

// orNil takes an empty name as none.
func orNil(p *string) *string {
	if p == nil || *p == "" {
		return nil
	}

	return p
}
