package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"everloop/bench/proc"
	"everloop/bench/result"
	"everloop/bench/target"
)

const (
	dagNodes  = 200
	dagRounds = 5
	dagGoal   = 25 // milliseconds that a trivial node adds
	dagWidth  = 32 // nodes of a run that work at once
)

type obj = map[string]any

// measureDAG takes what a node adds to a run of a DAG: nodes that do nothing, one after the
// other, and nodes that run a command, side by side.
func measureDAG(ctx context.Context, b *bench) error {
	inner := make([]obj, dagNodes-2)
	for i := range inner {
		inner[i] = obj{"type": "join"}
	}

	chain, err := b.publishDAG(ctx, inner, true)
	if err != nil {
		return err
	}

	var nodes result.Sample

	meter := proc.StartMeter(b.server.Cmd.Process.Pid)

	for range dagRounds {
		run, err := b.runDAG(ctx, chain)
		if err != nil {
			return err
		}

		nodes = append(nodes, result.Milliseconds(run.FinishedAt.Sub(run.StartedAt))/dagNodes)
	}

	b.samples(fmt.Sprintf("a node of %d that do nothing, in a row", dagNodes), "ms", nodes, nil, result.AtMost(dagGoal))
	b.cost("such a node", meter.Read(), dagRounds*dagNodes)

	inner = inner[:min(len(inner), b.commands)]
	for i := range inner {
		inner[i] = obj{"type": "code", "config": obj{"code": "true"}}
	}

	wide, err := b.publishDAG(ctx, inner, false)
	if err != nil {
		return err
	}

	meter = proc.StartMeter(b.server.Cmd.Process.Pid)

	run, err := b.runDAG(ctx, wide)
	if err != nil {
		return err
	}

	took := run.FinishedAt.Sub(run.StartedAt)
	b.value(fmt.Sprintf("a node of %d that run `true`, side by side", len(inner)), "ms", result.Milliseconds(took)/float64(len(inner)), nil)
	b.value("  the most at once", "", float64(run.width()), result.AtLeast(float64(min(len(inner), dagWidth))))
	b.cost("such a node", meter.Read(), len(inner))

	return nil
}

// publishDAG makes a production solution with these nodes between a start and an end, in a
// row or side by side, and gives its id.
func (b *bench) publishDAG(ctx context.Context, inner []obj, row bool) (string, error) {
	nodes, edges := []obj{{"id": "start", "type": "start"}, {"id": "end", "type": "end"}}, []obj{}
	link := func(source, target string) {
		edges = append(edges, obj{"id": fmt.Sprintf("e%d", len(edges)), "source": source, "target": target})
	}
	before := "start"

	for i, node := range inner {
		id := fmt.Sprintf("n%d", i)
		node["id"] = id
		nodes = append(nodes, node)

		link(before, id)

		if row {
			before = id
		} else {
			link(id, "end")
		}
	}

	if row {
		link(before, "end")
	}

	return b.client.PublishDAG(ctx, obj{"nodes": nodes, "edges": edges})
}

// dagRun is a run of a DAG that is over.
type dagRun struct {
	ID         string     `json:"id"`
	Status     string     `json:"status"`
	StartedAt  time.Time  `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at"`
	Nodes      []struct {
		SessionID  *string    `json:"session_id"`
		StartedAt  *time.Time `json:"started_at"`
		FinishedAt *time.Time `json:"finished_at"`
	} `json:"nodes"`
}

// runDAG runs a published DAG and waits until the run is over.
func (b *bench) runDAG(ctx context.Context, solution string) (run dagRun, err error) {
	path := "/api/prod_solution/dag/" + solution + "/runs"
	if err := b.client.Call(ctx, http.MethodPost, path, obj{}, &run); err != nil {
		return run, err
	}

	path += "/" + run.ID
	for began := time.Now(); run.FinishedAt == nil; {
		if time.Since(began) > target.Patience {
			return run, errors.New("a run of a DAG did not end")
		}

		if err := wait(ctx, 20*time.Millisecond); err != nil {
			return run, err
		}

		if err := b.client.Call(ctx, http.MethodGet, path, nil, &run); err != nil {
			return run, err
		}
	}

	if run.Status != "completed" {
		err = fmt.Errorf("the run %s ended as %s", run.ID, run.Status)
	}

	return run, err
}

// width is how many nodes with a session worked at once at most.
func (r dagRun) width() int {
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
