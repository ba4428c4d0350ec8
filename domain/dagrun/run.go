package dagrun

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"everloop/domain"
	"everloop/domain/dag"
	"everloop/domain/expression"
	"everloop/domain/schema"
)

// Run is the state of a run, for one step of the scheduler. The store fills it, calls Advance
// and writes the changes.
type Run struct {
	Graph  dag.Graph
	Inputs json.RawMessage
	Now    time.Time
	Cancel bool                 // requested by a user
	Nodes  map[string]*Unit     // by node
	Items  map[string][]*Unit   // of open map nodes, in their order; without requests and outputs
	Ended  map[string]Result    // work that has ended, by unit
	Before map[string][]Earlier // outputs that may be used again, by node

	// ItemOutputs reads the outputs of the items of a map node, in their order.
	ItemOutputs func(nodeID string) ([]json.RawMessage, error)

	Status  Status
	Outputs json.RawMessage
	Failure *NodeFailure
	WakeAt  *time.Time // the next time at which something is due
	Watch   []*Unit    // units that work, of which activity is due

	nodes   map[string]dag.Node
	into    map[string][]dag.Edge
	decoded map[string]any
	input   any // decoded
	total   int

	budget *expression.Budget // of the conditions of one step
	held   map[string]bool    // conditions that were evaluated, by edge
}

// Advance takes every step of a run that is possible now. On an error nothing must be stored.
func (r *Run) Advance() error {
	if r.Status.Over() {
		return nil
	}

	r.prepare()
	r.settle()
	r.expire()

	for _, id := range r.Graph.Order() {
		r.visit(r.nodes[id], r.Nodes[id])

		if err := r.gather(r.nodes[id], r.Nodes[id]); err != nil {
			return err
		}
	}

	r.finish()

	if !r.Status.Over() {
		r.begin()
		r.plan()
	}

	return nil
}

func (r *Run) prepare() {
	r.Status = Running

	r.nodes, r.into, r.decoded = map[string]dag.Node{}, map[string][]dag.Edge{}, map[string]any{}
	for _, n := range r.Graph.Nodes {
		r.nodes[n.ID] = n
	}

	for _, e := range r.Graph.Edges {
		r.into[e.Target] = append(r.into[e.Target], e)
	}

	for _, u := range r.Nodes {
		r.total += len(u.Output)
	}

	r.budget, r.held, r.input = expression.NewBudget(), map[string]bool{}, decode(r.Inputs)
}

// units are all units of the run, in a fixed order.
func (r *Run) units() []*Unit {
	var all []*Unit
	for _, n := range r.Graph.Nodes {
		all = append(all, r.Nodes[n.ID])
		all = append(all, r.Items[n.ID]...)
	}

	return all
}

// settle takes the results of work that has ended.
func (r *Run) settle() {
	for _, u := range r.units() {
		result, ended := r.Ended[u.ID]
		if !ended || u.Status != Running {
			continue
		}

		u.Usage = u.Usage.Add(result.Usage)

		u.Changed = true
		switch {
		case result.Failure != nil:
			u.Stop = result.Stop
			r.fail(u, *result.Failure)
		case u.Phase == PhaseApproval:
			r.decided(u, result.Text)
		default:
			r.take(u, result)
		}
	}
}

// Approve is the answer that allows a node to start; any other rejects it.
const (
	Approve = dag.AnswerApprove
	Reject  = dag.AnswerReject
)

func (r *Run) decided(u *Unit, answer string) {
	if answer != Approve {
		r.fail(u, NodeFailure{CodeNotApproved, "the node was not approved: " + cut(answer)})
		return
	}

	u.SessionID, u.Begun, u.Attempt = "", false, 0
	r.start(r.nodes[u.NodeID], u)
}

// take derives the output of a unit from the result of its work.
func (r *Run) take(u *Unit, result Result) {
	outputSchema := r.schemaOf(u)

	output := result.JSON
	switch {
	case output != nil:
	case outputSchema != nil:
		parsed, err := schema.JSONAnswer(result.Text)
		if err != nil {
			r.fail(u, NodeFailure{CodeInvalidOutput, "the output is not one JSON value, as output_schema asks for"})
			return
		}

		output = parsed
	default:
		output, _ = marshal(domain.CleanText(result.Text))
	}

	if failure := checkOutput(outputSchema, output); failure != nil {
		r.fail(u, *failure)
		return
	}

	r.complete(u, output)
}

// schemaOf returns the schema of a unit's output. The schema of an item is part of its node's
// list schema.
func (r *Run) schemaOf(u *Unit) map[string]json.RawMessage {
	return SchemaOf(r.nodes[u.NodeID], u.Item)
}

// SchemaOf is the schema of the output of a node, or of one of its items.
func SchemaOf(n dag.Node, item int) map[string]json.RawMessage {
	if item == NoItem {
		return n.OutputSchema
	}

	var inner map[string]json.RawMessage
	if raw, found := n.OutputSchema["items"]; found && json.Unmarshal(raw, &inner) == nil {
		return inner
	}

	return nil
}

func (r *Run) complete(u *Unit, output json.RawMessage) {
	n := r.nodes[u.NodeID]

	bounded := !immediate(n.Type) && !isMap(n, u)
	if bounded && len(output) > MaxOutput || r.total+len(output) > MaxTotal {
		r.fail(u, NodeFailure{CodeOutputTooLarge, fmt.Sprintf("the output has %d bytes: one may have %d, those of a run together %d",
			len(output), MaxOutput, MaxTotal)})

		return
	}

	r.total += len(output)
	u.Output, u.Status, u.Phase, u.Failure = output, Completed, "", nil
	u.DueAt, u.Deadline = nil, nil
	r.over(u)
}

func (r *Run) over(u *Unit) {
	u.FinishedAt, u.Changed = &r.Now, true
	if u.StartedAt == nil {
		u.StartedAt = &r.Now
	}
}

// final are failures after which another attempt cannot succeed.
var final = []string{CodeNotApproved, CodeInvalidItems, CodeSubflowTooDeep, CodeOutputTooLarge, CodeInvalidInputs}

// fail ends an attempt of a unit. Another one follows after a pause, if its node allows.
func (r *Run) fail(u *Unit, failure NodeFailure) {
	n := r.nodes[u.NodeID]
	u.Failure, u.Changed, u.DueAt, u.Deadline = &failure, true, nil, nil
	// An item has the attempts of its node, a map node itself has one.
	again := n.Retry != nil && u.Attempt > 0 && u.Attempt < n.Retry.MaxAttempts && u.Phase == PhaseWork &&
		!slices.Contains(
			final,
			failure.Code,
		) && !slices.Contains(n.Retry.NonRetryable, failure.Code) && (n.Type != dag.Map || u.Item != NoItem)
	if !again {
		u.Status, u.Phase = Failed, ""
		r.over(u)

		return
	}

	due := r.Now.Add(Pause(*n.Retry, u.Attempt))
	u.Status, u.Phase, u.DueAt = Waiting, PhasePause, &due
}

// Pause is how long the next attempt waits after some have failed.
func Pause(retry dag.Retry, failed int) time.Duration {
	first, factor := retry.InitialIntervalS, retry.Backoff
	if first == 0 {
		first = 1
	}

	if factor == 0 {
		factor = 2
	}

	most := retry.MaxIntervalS
	if most == 0 {
		most = 3600
	}

	return time.Duration(min(first*math.Pow(factor, float64(failed-1)), most) * float64(time.Second))
}

// expire ends pauses and attempts whose time is over, and finds units of which a sign of
// life is due.
func (r *Run) expire() {
	for _, u := range r.units() {
		switch {
		case u.Status == Waiting && u.DueAt != nil && !u.Stop && !r.Now.Before(*u.DueAt):
			if r.nodes[u.NodeID].Type == dag.Wait {
				r.complete(u, json.RawMessage("null"))
				continue
			}

			u.Status, u.Phase, u.DueAt, u.Changed = Ready, PhaseWork, nil, true
			u.SessionID, u.ChildID, u.Begun = "", "", false
		case u.Status == Running && u.Deadline != nil && !r.Now.Before(*u.Deadline):
			u.Stop = u.given()
			r.fail(u, NodeFailure{CodeTimeout, "the attempt took longer than timeout_s"})
		case u.Status == Running && u.DueAt != nil && !r.Now.Before(*u.DueAt):
			r.Watch = append(r.Watch, u)
		}
	}
}

// visit decides about a node that is not decided yet.
func (r *Run) visit(n dag.Node, u *Unit) {
	if u.Status != Pending || r.Failure != nil || r.Cancel {
		return
	}

	before, decided := r.taken(n)
	switch {
	case !decided:
	case n.Type != dag.Start && len(before) == 0:
		u.Status = Skipped
		r.over(u)
	default:
		r.activate(n, u, before)
	}

	r.note(n, u)
}

// note ends the run for a node that failed without anything to follow.
func (r *Run) note(n dag.Node, u *Unit) {
	if u.Status == Failed && n.OnError != dag.ErrorIgnored && n.OnError != dag.ErrorIsRouted && r.Failure == nil {
		r.Failure = &NodeFailure{u.Failure.Code, cut("node " + n.ID + " failed: " + u.Failure.Message)}
	}
}

// taken lists the nodes whose edges lead a run to a node. It is decided when all of them
// are over.
func (r *Run) taken(n dag.Node) (sources []string, decided bool) {
	for _, e := range r.into[n.ID] {
		if !r.Nodes[e.Source].Status.Over() {
			return nil, false
		}
	}

	for _, e := range r.into[n.ID] {
		if r.follows(e) && !slices.Contains(sources, e.Source) {
			sources = append(sources, e.Source)
		}
	}

	return sources, true
}

// follows reports whether a run takes an edge whose source is over.
func (r *Run) follows(e dag.Edge) bool {
	source, node := r.Nodes[e.Source], r.nodes[e.Source]
	onError := e.Kind == dag.EdgeError

	switch source.Status {
	case Completed, Reused:
		if onError {
			return false
		}
	case Failed:
		if routed := node.OnError == dag.ErrorIsRouted; routed != onError || !routed && node.OnError != dag.ErrorIgnored {
			return false
		}
	default:
		return false
	}

	if node.Type == dag.Human && e.SourceHandle != "" && e.SourceHandle != asText(r.output(e.Source)) {
		return false
	}

	if e.Condition == "" {
		return node.Type != dag.Condition || onError || !r.otherFollows(e)
	}

	return r.holds(e)
}

// otherFollows reports whether a condition node has an edge whose condition holds: then its
// edges without a condition are not taken.
func (r *Run) otherFollows(e dag.Edge) bool {
	return slices.ContainsFunc(r.Graph.Edges, func(other dag.Edge) bool {
		return other.Source == e.Source && other.Kind != dag.EdgeError && other.Condition != "" && r.holds(other)
	})
}

// holds evaluates a condition, once a step. A condition that cannot be evaluated fails the run.
func (r *Run) holds(e dag.Edge) bool {
	if holds, evaluated := r.held[e.ID]; evaluated {
		return holds
	}

	holds, err := dag.Holds(e.Condition, r.scope(nil).value, r.budget)
	if err != nil && r.Failure == nil {
		r.Failure = &NodeFailure{CodeCondition, cut(fmt.Sprintf("the condition of edge %s cannot be evaluated: %v", e.ID, err))}
	}

	r.held[e.ID] = holds && err == nil

	return r.held[e.ID]
}

func (r *Run) scope(item any) scope { return scope{outputs: r.output, input: r.input, item: item} }

func (r *Run) output(nodeID string) any {
	if value, known := r.decoded[nodeID]; known {
		return value
	}

	u := r.Nodes[nodeID]
	if u == nil || u.Output == nil {
		return nil
	}

	value := decode(u.Output)
	if u.Status.Over() {
		r.decoded[nodeID] = value
	}

	return value
}
