package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Object is a JSON object.
type Object = map[string]any

// Row is a DAG of nodes one after the other, between a start and an end.
func Row(inner []Object) Object {
	g := graph{}
	before := "start"

	for i, node := range inner {
		id := g.add(i, node)
		g.link(before, id)
		before = id
	}

	g.link(before, "end")

	return g.object()
}

// SideBySide is a DAG of nodes that do not wait for each other, between a start and an end.
func SideBySide(inner []Object) Object {
	g := graph{}

	for i, node := range inner {
		id := g.add(i, node)
		g.link("start", id)
		g.link(id, "end")
	}

	return g.object()
}

type graph struct{ nodes, edges []Object }

func (g *graph) add(i int, node Object) (id string) {
	id = fmt.Sprintf("n%d", i)
	node["id"] = id
	g.nodes = append(g.nodes, node)

	return id
}

func (g *graph) link(source, target string) {
	g.edges = append(g.edges, Object{"id": fmt.Sprintf("e%d", len(g.edges)), "source": source, "target": target})
}

func (g *graph) object() Object {
	ends := []Object{{"id": "start", "type": "start"}, {"id": "end", "type": "end"}}
	return Object{"nodes": append(ends, g.nodes...), "edges": g.edges}
}

// PublishDAG makes a production solution whose DAG is published, and gives its id.
func (c *Client) PublishDAG(ctx context.Context, graph Object) (string, error) {
	var made struct {
		ID string `json:"id"`
	}

	err := c.Call(ctx, http.MethodPost, "/api/prod_solution", Object{"name": "Bench"}, &made)
	if err == nil {
		err = c.Call(ctx, http.MethodPost, "/api/prod_solution/dag/"+made.ID+"/publish", Object{"dag": graph}, nil)
	}

	return made.ID, err
}

// DAGRun is a run of a DAG that is over.
type DAGRun struct {
	ID         string     `json:"id"`
	Status     string     `json:"status"`
	FinishedAt *time.Time `json:"finished_at"`
	// Took is the time from the request to the end as its client sees it. The records of
	// nodes that are decided together have one time.
	Took  time.Duration `json:"-"`
	Nodes []struct {
		SessionID  *string    `json:"session_id"`
		StartedAt  *time.Time `json:"started_at"`
		FinishedAt *time.Time `json:"finished_at"`
	} `json:"nodes"`
}

// StartDAG begins a run of a published DAG.
func (c *Client) StartDAG(ctx context.Context, solution string) (run DAGRun, err error) {
	err = c.Call(ctx, http.MethodPost, "/api/prod_solution/dag/"+solution+"/runs", Object{}, &run)
	return run, err
}

// RunDAG runs a published DAG and waits until the run is over.
func (c *Client) RunDAG(ctx context.Context, solution string) (DAGRun, error) {
	sent := time.Now()

	run, err := c.StartDAG(ctx, solution)
	if err != nil {
		return run, err
	}

	for run.FinishedAt == nil {
		if time.Since(sent) > Patience {
			return run, errors.New("a run of a DAG did not end")
		}

		select {
		case <-ctx.Done():
			return run, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}

		if err := c.Call(ctx, http.MethodGet, "/api/prod_solution/dag/"+solution+"/runs/"+run.ID, nil, &run); err != nil {
			return run, err
		}
	}

	if run.Status != "completed" {
		return run, fmt.Errorf("the run %s ended as %s", run.ID, run.Status)
	}

	run.Took = time.Since(sent)

	return run, nil
}

// Width is how many nodes with a session worked at once at most.
func (r DAGRun) Width() int {
	type change struct {
		at   time.Time
		more int
	}

	var changes []change

	for _, n := range r.Nodes {
		if n.SessionID != nil && n.StartedAt != nil && n.FinishedAt != nil {
			changes = append(changes, change{*n.StartedAt, 1}, change{*n.FinishedAt, -1})
		}
	}

	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), a.more-b.more) })

	most, now := 0, 0
	for _, c := range changes {
		now += c.more
		most = max(most, now)
	}

	return most
}
