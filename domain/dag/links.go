package dag

import (
	"cmp"
	"slices"
)

// links are the edges of a graph between nodes by number. Of nodes with one id the
// first counts.
type links struct {
	ids    []string
	number map[string]int
	next   [][]int
}

func newLinks(g Graph) links {
	l := links{number: map[string]int{}}
	for _, n := range g.Nodes {
		if _, known := l.number[n.ID]; !known {
			l.number[n.ID] = len(l.ids)
			l.ids = append(l.ids, n.ID)
		}
	}

	l.next = make([][]int, len(l.ids))
	for _, e := range g.Edges {
		from, known := l.number[e.Source]

		to, alsoKnown := l.number[e.Target]
		if known && alsoKnown {
			l.next[from] = append(l.next[from], to)
		}
	}

	return l
}

// order returns the ids in topological order. Nodes of a cycle, and their successors, follow
// last in the order of the document.
func (l links) order() []string {
	incoming := make([]int, len(l.ids))
	for _, targets := range l.next {
		for _, to := range targets {
			incoming[to]++
		}
	}

	var ready []int

	for i, n := range incoming {
		if n == 0 {
			ready = append(ready, i)
		}
	}

	out := make([]string, 0, len(l.ids))

	placed := make([]bool, len(l.ids))
	for len(ready) > 0 {
		i := ready[0]
		ready = ready[1:]

		out, placed[i] = append(out, l.ids[i]), true
		for _, to := range l.next[i] {
			if incoming[to]--; incoming[to] == 0 {
				ready = append(ready, to)
			}
		}
	}

	for i, id := range l.ids {
		if !placed[i] {
			out = append(out, id)
		}
	}

	return out
}

// reach returns the nodes reachable from some nodes, including themselves.
func (l links) reach(from ...int) []bool {
	from = slices.Clone(from) // it may be a list of the links themselves

	seen := make([]bool, len(l.ids))
	for len(from) > 0 {
		i := from[len(from)-1]
		from = from[:len(from)-1]

		if !seen[i] {
			seen[i] = true
			from = append(from, l.next[i]...)
		}
	}

	return seen
}

// reversed returns the same links in the opposite direction.
func (l links) reversed() links {
	back := links{ids: l.ids, number: l.number, next: make([][]int, len(l.ids))}
	for from, targets := range l.next {
		for _, to := range targets {
			back.next[to] = append(back.next[to], from)
		}
	}

	return back
}

// cycles returns the ids of the nodes of each cycle: the strongly connected components with
// more than one node, and nodes with an edge to themselves (Tarjan's algorithm).
func (l links) cycles() [][]string {
	t := tarjan{links: l, index: make([]int, len(l.ids)), low: make([]int, len(l.ids)), open: make([]bool, len(l.ids))}
	for i := range l.ids {
		if t.index[i] == 0 {
			t.visit(i)
		}
	}

	return t.found
}

type tarjan struct {
	links
	count      int
	index, low []int // 0: not visited
	open       []bool
	stack      []int
	found      [][]string
}

// visit recurses as deep as the graph has nodes, which MaxNodes bounds.
func (t *tarjan) visit(i int) {
	t.count++
	t.index[i], t.low[i] = t.count, t.count

	t.stack, t.open[i] = append(t.stack, i), true
	for _, to := range t.next[i] {
		if t.index[to] == 0 {
			t.visit(to)
			t.low[i] = min(t.low[i], t.low[to])
		} else if t.open[to] {
			t.low[i] = min(t.low[i], t.index[to])
		}
	}

	if t.low[i] != t.index[i] {
		return
	}

	at := slices.Index(t.stack, i)
	members := slices.Clone(t.stack[at:])

	t.stack = t.stack[:at]
	for _, m := range members {
		t.open[m] = false
	}

	if len(members) > 1 || slices.Contains(t.next[i], i) {
		slices.SortFunc(members, func(a, b int) int { return cmp.Compare(a, b) })

		names := make([]string, len(members))
		for k, m := range members {
			names[k] = t.ids[m]
		}

		t.found = append(t.found, names)
	}
}
