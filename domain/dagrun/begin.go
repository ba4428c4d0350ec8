package dagrun

import (
	"encoding/json"
	"fmt"
	"time"

	"everloop/domain"
	"everloop/domain/dag"
)

// activate starts a node that the run has reached, or reuses its earlier output.
func (r *Run) activate(n dag.Node, u *Unit, before []string) {
	limit := MaxRequestText
	if immediate(n.Type) || n.Type == dag.Map {
		limit = MaxTotal
	}

	left := limit

	request := r.scope(nil).resolve(n, before, &left)
	if left < 0 {
		r.fail(u, tooLarge(limit))
		return
	}

	u.Definition, u.Inputs, u.Request, u.Changed = definition(n), digestOf(request), &request, true
	if !immediate(n.Type) && r.reuse(n, u) {
		return
	}

	if limit == MaxRequestText && len(asText(request)) > limit {
		r.fail(u, tooLarge(limit))
		return
	}

	if n.Approval != nil && n.Approval.Policy != dag.ApprovalNone {
		u.Status, u.Phase = Ready, PhaseApproval
		return
	}

	r.start(n, u)
}

func tooLarge(limit int) NodeFailure {
	return NodeFailure{CodeInvalidInputs, fmt.Sprintf("the inputs of the node have more than %d bytes", limit)}
}

// immediate types have no effect outside the run.
func immediate(t dag.NodeType) bool {
	switch t {
	case dag.Start, dag.End, dag.Condition, dag.Join:
		return true
	default:
		return false
	}
}

// reuse takes an earlier output of the same node, or records why it cannot.
func (r *Run) reuse(n dag.Node, u *Unit) bool {
	reason := ""

	for _, e := range r.Before[n.ID] {
		switch {
		case e.Kept:
			reason = ReuseKept
		case e.Barred:
			u.ReuseReason = ReuseRestarted
			continue
		case e.Definition != u.Definition:
			u.ReuseReason = ReuseDefinitionChanged
			continue
		case e.Inputs != u.Inputs:
			u.ReuseReason = ReuseInputsChanged
			continue
		default:
			reason = ReuseSameInputs
		}

		r.complete(u, e.Output)

		if u.Status == Completed {
			u.Status, u.ReusedFrom, u.ReuseReason = Reused, e.ID, reason
			u.SessionID, u.ChildID = e.SessionID, e.ChildID // where the output can be looked into
		}

		return true
	}

	return false
}

// start starts the work of a node.
func (r *Run) start(n dag.Node, u *Unit) {
	u.Changed, u.Phase = true, PhaseWork

	switch n.Type {
	case dag.Start:
		r.complete(u, r.Inputs)
	case dag.Condition, dag.Join, dag.End:
		output, _ := marshal(r.passed(u))
		if failure := checkOutput(n.OutputSchema, output); failure != nil {
			r.fail(u, *failure)
			return
		}

		r.complete(u, output)
	case dag.Wait:
		due := r.Now.Add(time.Duration(configOf(n).WaitS) * time.Second)
		u.Status, u.Phase, u.DueAt, u.StartedAt = Waiting, PhasePause, &due, &r.Now
	case dag.Map:
		r.spread(n, u)
	case dag.Agent, dag.Tool, dag.Human, dag.Subflow, dag.Code:
		u.Status = Ready
	}
}

// passed returns the output of a node that does no work: its inputs, else the outputs of the
// nodes before it.
func (r *Run) passed(u *Unit) any {
	if len(u.Request.Inputs) > 0 {
		return u.Request.Inputs
	}

	if len(u.Request.Before) == 1 {
		return u.Request.Before[0].Output
	}

	outputs := map[string]any{}
	for _, b := range u.Request.Before {
		outputs[b.NodeID] = b.Output
	}

	return outputs
}

// spread creates the units of a map node, one for each item.
func (r *Run) spread(n dag.Node, u *Unit) {
	items, isList := u.Request.Inputs["items"].([]any)
	if !isList || len(items) > MaxItems {
		r.fail(u, NodeFailure{CodeInvalidItems, fmt.Sprintf("items has to be a list of at most %d entries", MaxItems)})
		return
	}

	u.Status, u.StartedAt, u.Attempt = Running, &r.Now, 1
	total := MaxItemText

	for i, item := range items {
		limit := min(total, MaxRequestText)
		left := limit

		request := r.scope(item).resolve(n, nil, &left)
		if left < 0 {
			r.Items[n.ID] = nil
			r.fail(u, tooLarge(limit))

			return
		}

		total -= limit - left

		request.Inputs = map[string]any{"item": item}
		r.Items[n.ID] = append(r.Items[n.ID], &Unit{
			ID: domain.NewID(), NodeID: n.ID, Item: i, Status: Ready, Phase: PhaseWork, Definition: u.Definition, Request: &request,
			Inputs: digestOf(request), New: true, Changed: true,
		})
	}
}

// gather ends a map node whose items are over, and one of whose items failed.
func (r *Run) gather(n dag.Node, u *Unit) error {
	defer r.note(n, u)

	if n.Type != dag.Map || u.Status != Running || u.Phase != PhaseWork {
		return nil
	}

	items, open := r.Items[n.ID], false
	for _, item := range items {
		if item.Status == Failed && n.OnError != dag.ErrorIgnored {
			r.cancelItems(n.ID)
			r.fail(u, NodeFailure{item.Failure.Code, cut(fmt.Sprintf("item %d failed: %s", item.Item, item.Failure.Message))})

			return nil
		}

		open = open || !item.Status.Over()
	}

	if open {
		return nil
	}

	outputs, err := r.itemOutputs(n.ID)
	if err != nil {
		return err
	}

	list, err := marshal(outputs)
	if err != nil {
		return err
	}

	if failure := checkOutput(n.OutputSchema, list); failure != nil {
		r.fail(u, *failure)
		return nil
	}

	r.complete(u, list)

	return nil
}

// itemOutputs are the outputs of a map's items. Those of this step are not stored yet.
func (r *Run) itemOutputs(nodeID string) ([]json.RawMessage, error) {
	items := r.Items[nodeID]

	outputs := make([]json.RawMessage, len(items))
	if len(items) == 0 || items[0].New {
		return outputs, nil
	}

	stored, err := r.ItemOutputs(nodeID)
	if err != nil {
		return nil, err
	}

	copy(outputs, stored)

	for i, item := range items {
		if item.Output != nil {
			outputs[i] = item.Output
		}

		if outputs[i] == nil {
			outputs[i] = json.RawMessage("null")
		}
	}

	return outputs, nil
}

func (r *Run) cancelItems(nodeID string) {
	for _, item := range r.Items[nodeID] {
		r.cancel(item)
	}
}

func (r *Run) cancel(u *Unit) {
	if u.Status.Over() {
		return
	}

	u.Stop = u.Status == Running && u.given()
	u.Status, u.Phase, u.DueAt, u.Deadline = Cancelled, "", nil, nil
	r.over(u)
}

// finish ends the run when it failed, was cancelled, or has no work left.
func (r *Run) finish() {
	switch {
	case r.Failure != nil:
		r.Status = Failed
	case r.Cancel:
		r.Status = Cancelled
	default:
		for _, u := range r.Nodes {
			if !u.Status.Over() {
				return
			}
		}

		r.Status, r.Outputs = Completed, r.result()

		return
	}

	for _, u := range r.units() {
		r.cancel(u)
	}
}

// result returns the output of a run: the output of its end node, or of its end nodes by id.
func (r *Run) result() json.RawMessage {
	ends := map[string]json.RawMessage{}

	var last json.RawMessage

	for _, n := range r.Graph.Nodes {
		if u := r.Nodes[n.ID]; n.Type == dag.End && u.Status == Completed {
			ends[n.ID], last = u.Output, u.Output
		}
	}

	if len(ends) == 1 {
		return last
	}

	raw, _ := marshal(ends) // of JSON

	return raw
}

// begin starts ready units, up to the allowed number of concurrent ones.
func (r *Run) begin() {
	working := 0

	for _, u := range r.units() {
		if u.Status == Running && !isMap(r.nodes[u.NodeID], u) {
			working++
		}
	}

	for _, n := range r.Graph.Nodes {
		r.beginUnit(n, r.Nodes[n.ID], &working)

		wide := MapWidth
		if n.Concurrency != nil {
			wide = *n.Concurrency
		}

		for _, item := range r.Items[n.ID] {
			if item.Status == Running {
				wide--
			}
		}

		for _, item := range r.Items[n.ID] {
			if wide > 0 && r.beginUnit(n, item, &working) {
				wide--
			}
		}
	}
}

func isMap(n dag.Node, u *Unit) bool {
	return n.Type == dag.Map && u.Item == NoItem && u.Phase == PhaseWork
}

func (r *Run) beginUnit(n dag.Node, u *Unit, working *int) bool {
	if u.Status != Ready || *working >= MaxWidth {
		return false
	}

	*working++

	u.Status, u.Changed, u.Begun = Running, true, false
	if u.Attempt++; u.StartedAt == nil {
		u.StartedAt = &r.Now
	}

	if u.Phase == PhaseWork && Subflow(n) {
		u.ChildID = domain.NewID()
	} else {
		u.SessionID = domain.SessionID(domain.NewID())
	}

	if n.TimeoutS != nil && u.Phase == PhaseWork {
		deadline := r.Now.Add(time.Duration(*n.TimeoutS) * time.Second)
		u.Deadline = &deadline
	}

	if n.HeartbeatS != nil && n.Watched() && u.Phase == PhaseWork {
		due := r.Now.Add(Heartbeat(n))
		u.DueAt = &due
	}

	return true
}

// Heartbeat is how long the work of a node may show no activity; 0: without a limit.
func Heartbeat(n dag.Node) time.Duration {
	if n.HeartbeatS == nil {
		return 0
	}

	return time.Duration(*n.HeartbeatS) * time.Second
}

// Subflow reports whether the work of a node, or of its items, is another DAG.
func Subflow(n dag.Node) bool {
	return n.Type == dag.Subflow || n.Type == dag.Map && configOf(n).ProdSolutionID != ""
}

// plan determines when the run must be advanced again if no event occurs.
func (r *Run) plan() {
	for _, u := range r.units() {
		for _, at := range []*time.Time{u.DueAt, u.Deadline} {
			if at != nil && !u.Stop && (r.WakeAt == nil || at.Before(*r.WakeAt)) {
				r.WakeAt = at
			}
		}
	}
}
