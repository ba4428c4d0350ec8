package dagrun

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"everloop/domain/dag"
)

// Content answers what depends on the inputs and outputs of a run, and writes them. An
// error ends the run.
type Content interface {
	// Activate resolves the input of a node from its predecessors. It reuses a matching earlier
	// output; otherwise, with start, it starts the node like Start.
	Activate(n dag.Node, before []string, start bool) (Outcome, error)
	// Start completes a node that does no work outside the run, or creates the items of a map, or
	// the first iteration of a loop.
	Start(n dag.Node) (Outcome, error)
	// Take reads the result of a unit's work and derives the unit's output.
	Take(u *Unit) (Outcome, error)
	// Gather creates the output of a map node from the outputs of its items, and of a loop whose
	// condition holds; otherwise it creates the next iteration of the loop.
	Gather(n dag.Node) (Outcome, error)
	// Follows reports whether the answer and the condition of an edge hold.
	Follows(e dag.Edge) (Outcome, error)
}

// Outcome is what Content made of a unit or an edge.
type Outcome struct {
	// Status is Completed, Reused or Failed; Ready: the node can start; Running: a map has
	// items, or the work has not ended.
	Status   Status       `json:"status,omitempty"`
	Failure  *NodeFailure `json:"failure,omitempty"`
	Items    int          `json:"items,omitempty"`
	Approved bool         `json:"approved,omitempty"` // of an approval
	Holds    bool         `json:"holds,omitempty"`    // of an edge
	// Capture: the work has ended, and its files must be captured before its result is taken.
	Capture bool `json:"capture,omitempty"`
}

// Run is the state of a run. Each change of it is followed by Advance.
type Run struct {
	Graph   dag.Graph // its Skeleton is enough
	Content Content
	Now     time.Time
	Cancel  bool               // its end was requested
	Nodes   map[string]*Unit   // by node
	Items   map[string][]*Unit // of open map nodes, in their order

	Status  Status
	Failure *NodeFailure
	WakeAt  *time.Time // the next time at which something is due
	Watch   []*Unit    // working units whose activity is due
	Capture []*Unit    // units whose work has ended, and whose files must be captured

	nodes map[string]dag.Node
	into  map[string][]dag.Edge
	order []dag.Node
	held  map[string]bool // edges that were evaluated
	err   error           // of the content
}

// Advance takes every step of a run that can be taken now.
func (r *Run) Advance() error {
	if r.Status.Over() {
		return nil
	}

	r.prepare()
	r.settle()
	r.expire()

	for _, n := range r.order {
		r.visit(n, r.Nodes[n.ID])
		r.gather(n, r.Nodes[n.ID])
	}

	r.finish()

	if !r.Status.Over() {
		r.begin()
		r.plan()
	}

	return r.err
}

func (r *Run) prepare() {
	r.Status, r.WakeAt, r.Watch, r.Capture = Running, nil, nil, nil
	if r.nodes != nil {
		return
	}

	r.nodes, r.into, r.held = map[string]dag.Node{}, map[string][]dag.Edge{}, map[string]bool{}
	for _, n := range r.Graph.Nodes {
		r.nodes[n.ID] = n
	}

	for _, e := range r.Graph.Edges {
		r.into[e.Target] = append(r.into[e.Target], e)
	}

	for _, id := range r.Graph.Order() {
		r.order = append(r.order, r.nodes[id])
	}
}

// ask calls the content unless an earlier call failed.
func (r *Run) ask(call func() (Outcome, error)) Outcome {
	if r.err != nil {
		return Outcome{Status: Running}
	}

	out, err := call()
	if err != nil {
		r.err = err
		return Outcome{Status: Running}
	}

	return out
}

func (r *Run) now() *time.Time {
	now := r.Now
	return &now
}

// Units are all units of the run, in a fixed order.
func (r *Run) Units() []*Unit {
	var all []*Unit
	for _, n := range r.Graph.Nodes {
		all = append(all, r.Nodes[n.ID])
		all = append(all, r.Items[n.ID]...)
	}

	return all
}

// settle takes the results of work that has ended.
func (r *Run) settle() {
	for _, u := range r.Units() {
		look, rejected := u.Look, u.Rejected
		u.Look, u.Rejected = false, nil

		if u.Status != Running || !look && rejected == nil {
			continue
		}

		out := Outcome{Status: Running}
		if u.Begun && look {
			out = r.ask(func() (Outcome, error) { return r.Content.Take(u) })
		}

		switch {
		case out.Status == Running && rejected != nil:
			u.Stop = u.Begun
			r.fail(u, *rejected)
		case out.Capture:
			r.Capture = append(r.Capture, u)
		case out.Status == Running:
		case out.Status == Failed:
			r.fail(u, *out.Failure)
		case u.Phase == PhaseApproval:
			r.decided(u, out)
		default:
			r.complete(u, out.Status)
		}
	}
}

// Approve is the answer that allows a node to start; any other rejects it.
const (
	Approve = dag.AnswerApprove
	Reject  = dag.AnswerReject
)

func (r *Run) decided(u *Unit, out Outcome) {
	if !out.Approved {
		r.fail(u, *out.Failure)
		return
	}

	u.SessionID, u.ChatID, u.Begun, u.Attempt = "", "", false, 0
	r.start(r.nodes[u.NodeID], u, nil)
}

// complete ends a unit whose output the content has written.
func (r *Run) complete(u *Unit, status Status) {
	u.Status, u.Phase, u.Failure, u.DueAt, u.Deadline, u.FinishedAt, u.Changed = status, "", nil, nil, nil, r.now(), false
}

func (r *Run) over(u *Unit, status Status) {
	u.Status, u.Phase, u.DueAt, u.Deadline, u.FinishedAt, u.Changed = status, "", nil, nil, r.now(), true
}

// final are failures after which another attempt cannot succeed.
var final = []string{
	CodeNotApproved, CodeInvalidItems, CodeSubflowTooDeep, CodeOutputTooLarge, CodeInvalidInputs,
	CodeFilesTooLarge, CodeCondition,
}

// fail ends an attempt of a unit. Another one follows after a pause if its node allows it.
func (r *Run) fail(u *Unit, failure NodeFailure) {
	n := r.nodes[u.NodeID]
	u.Failure = &failure
	// An item has the attempts of its node, a map node itself has one.
	again := n.Retry != nil && u.Attempt > 0 && u.Attempt < n.Retry.MaxAttempts && u.Phase == PhaseWork &&
		!slices.Contains(final, failure.Code) && !slices.Contains(n.Retry.NonRetryable, failure.Code) &&
		(!n.Type.Repeats() || u.Item != NoItem)
	if !again {
		r.over(u, Failed)
		return
	}

	due := r.Now.Add(Pause(*n.Retry, u.Attempt))
	u.Status, u.Phase, u.DueAt, u.Deadline, u.Changed = Waiting, PhasePause, &due, nil, true
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

	longest := retry.MaxIntervalS
	if longest == 0 {
		longest = 3600
	}

	return time.Duration(min(first*math.Pow(factor, float64(failed-1)), longest) * float64(time.Second))
}

// expire ends pauses and attempts whose time is over, and finds units whose activity is due.
func (r *Run) expire() {
	for _, u := range r.Units() {
		switch {
		case u.Status == Waiting && u.DueAt != nil && !u.Stop && !r.Now.Before(*u.DueAt):
			if n := r.nodes[u.NodeID]; n.Type == dag.Wait {
				out := r.ask(func() (Outcome, error) { return r.Content.Start(n) })
				r.start(n, u, &out)

				continue
			}

			u.Status, u.Phase, u.DueAt, u.Changed = Ready, PhaseWork, nil, true
			u.SessionID, u.ChatID, u.ChildID, u.Begun = "", "", "", false
		case u.Status == Running && u.Deadline != nil && !r.Now.Before(*u.Deadline):
			u.Stop = u.Item != NoItem || !isMap(r.nodes[u.NodeID], u)
			r.fail(u, NodeFailure{CodeTimeout, "the attempt took longer than timeout_s"})
		case u.Status == Running && u.Begun && u.DueAt != nil && !r.Now.Before(*u.DueAt):
			r.Watch = append(r.Watch, u)
		}
	}
}

// visit decides about a node that is not decided yet.
func (r *Run) visit(n dag.Node, u *Unit) {
	if u.Status != Pending || r.Failure != nil || r.Cancel || r.err != nil {
		return
	}

	before, decided := r.taken(n)
	switch {
	case !decided || r.Failure != nil || r.err != nil:
	case n.Type != dag.Start && len(before) == 0:
		r.over(u, Skipped)
	default:
		r.activate(n, u, before)
	}

	r.note(n, u)
}

// activate starts a node that the run has reached, or uses its earlier output.
func (r *Run) activate(n dag.Node, u *Unit, before []string) {
	asks := n.Approval != nil && n.Approval.Policy != dag.ApprovalNone
	out := r.ask(func() (Outcome, error) { return r.Content.Activate(n, before, !asks) })

	switch {
	case r.err != nil:
	case out.Status == Ready && asks:
		u.Status, u.Phase = Ready, PhaseApproval
	default:
		r.start(n, u, &out)
	}
}

// start starts the work of a node: as the content has done already, or after its approval.
func (r *Run) start(n dag.Node, u *Unit, out *Outcome) {
	if out == nil && (Immediate(n.Type) || n.Type.Repeats()) {
		started := r.ask(func() (Outcome, error) { return r.Content.Start(n) })
		out = &started
	}

	u.Phase = PhaseWork

	switch {
	case out != nil && out.Status == Failed:
		r.fail(u, *out.Failure)
	case out != nil && out.Status.Over():
		r.complete(u, out.Status)
	case r.err != nil:
	case n.Type == dag.Wait:
		due := r.Now.Add(time.Duration(configOf(n).WaitS) * time.Second)
		u.Status, u.Phase, u.DueAt, u.Changed = Waiting, PhasePause, &due, true
	case n.Type.Repeats():
		u.Status, u.Attempt = Running, 1
		r.addItems(n, out.Items)
	default:
		u.Status = Ready
	}
}

// addItems adds the items of a node that are not there yet, up to a number.
func (r *Run) addItems(n dag.Node, total int) {
	for i := len(r.Items[n.ID]); i < total; i++ {
		r.Items[n.ID] = append(r.Items[n.ID], &Unit{NodeID: n.ID, Item: i, Status: Ready, Phase: PhaseWork})
	}
}

// Immediate types do no work outside the run.
func Immediate(t dag.NodeType) bool {
	switch t {
	case dag.Start, dag.End, dag.Condition, dag.Join:
		return true
	default:
		return false
	}
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

	if e.Condition != "" || node.Type == dag.Human && e.SourceHandle != "" {
		return r.holds(e)
	}

	return node.Type != dag.Condition || onError || !r.otherFollows(e)
}

// otherFollows reports whether a condition node has an edge whose condition holds: then its
// edges without a condition are not taken.
func (r *Run) otherFollows(e dag.Edge) bool {
	return slices.ContainsFunc(r.Graph.Edges, func(other dag.Edge) bool {
		return other.Source == e.Source && other.Kind != dag.EdgeError && other.Condition != "" && r.holds(other)
	})
}

// holds evaluates the answer and the condition of an edge, once. A condition that cannot be
// evaluated fails the run.
func (r *Run) holds(e dag.Edge) bool {
	if holds, evaluated := r.held[e.ID]; evaluated {
		return holds
	}

	out := r.ask(func() (Outcome, error) { return r.Content.Follows(e) })
	if out.Failure != nil && r.Failure == nil {
		r.Failure = out.Failure
	}

	if r.err == nil {
		r.held[e.ID] = out.Holds && out.Failure == nil
	}

	return out.Holds && out.Failure == nil
}

// gather ends a map node or a loop when its items are over, or when one of them failed, or adds
// the next iteration of a loop.
func (r *Run) gather(n dag.Node, u *Unit) {
	defer r.note(n, u)

	if !n.Type.Repeats() || u.Status != Running || u.Phase != PhaseWork || r.err != nil {
		return
	}

	open := false
	for _, item := range r.Items[n.ID] {
		if item.Status == Failed && (n.OnError != dag.ErrorIgnored || n.Type == dag.Loop) {
			for _, other := range r.Items[n.ID] {
				r.cancel(other)
			}

			name, number, message := "item", item.Item, "it failed"
			if n.Type == dag.Loop {
				name, number = "iteration", item.Item+1
			}

			if item.Failure != nil {
				message = item.Failure.Message
			}

			r.fail(u, NodeFailure{failureCode(item), cut(fmt.Sprintf("%s %d failed: %s", name, number, message))})

			return
		}

		open = open || !item.Status.Over()
	}

	if open {
		return
	}

	out := r.ask(func() (Outcome, error) { return r.Content.Gather(n) })

	switch {
	case r.err != nil:
	case out.Status == Failed:
		r.fail(u, *out.Failure)
	case out.Status == Running:
		r.addItems(n, out.Items)
	default:
		r.complete(u, out.Status)
	}
}

func failureCode(u *Unit) string {
	if u.Failure == nil {
		return CodeToolFailed
	}

	return u.Failure.Code
}

func (r *Run) cancel(u *Unit) {
	if u.Status.Over() {
		return
	}

	u.Stop = u.Stop || u.Status == Running && !isMap(r.nodes[u.NodeID], u)
	r.over(u, Cancelled)
}

// finish ends the run when it failed, was cancelled, or has no work left.
func (r *Run) finish() {
	switch {
	case r.err != nil:
		return
	case r.Failure != nil:
		r.Status = Failed
	case r.Cancel:
		r.Status = Cancelled
	default:
		for _, n := range r.order {
			if !r.Nodes[n.ID].Status.Over() {
				return
			}
		}

		r.Status = Completed

		return
	}

	r.CancelUnits()
}

// CancelUnits cancels all units that are not over.
func (r *Run) CancelUnits() {
	for _, u := range r.Units() {
		r.cancel(u)
	}
}

// begin starts ready units, up to the allowed number of concurrent ones.
func (r *Run) begin() {
	working := 0

	for _, u := range r.Units() {
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
			if wide <= 0 || working >= MaxWidth {
				break
			}

			if r.beginUnit(n, item, &working) {
				wide--
			}
		}
	}
}

func isMap(n dag.Node, u *Unit) bool {
	return n.Type.Repeats() && u.Item == NoItem && u.Phase == PhaseWork
}

func (r *Run) beginUnit(n dag.Node, u *Unit, working *int) bool {
	if u.Status != Ready || *working >= MaxWidth {
		return false
	}

	*working++

	u.Status, u.Begun, u.Changed = Running, false, false // its start writes its row
	u.Attempt++

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
	return n.Type == dag.Subflow || n.Type.Repeats() && configOf(n).ProdSolutionID != ""
}

// plan determines when the run must be advanced again if no event occurs.
func (r *Run) plan() {
	for _, u := range r.Units() {
		for _, at := range []*time.Time{u.DueAt, u.Deadline} {
			if at != nil && !u.Stop && !slices.Contains(r.Watch, u) && (r.WakeAt == nil || at.Before(*r.WakeAt)) {
				r.WakeAt = at
			}
		}
	}
}

// itemStatuses are the statuses of items, and the letters of Unit.States at the same place.
var itemStatuses = []Status{Ready, Running, Waiting, Completed, Failed, Cancelled}

const itemLetters = "rwpcfx"

// StateOf returns the letter of an item's status.
func StateOf(s Status) string {
	at := slices.Index(itemStatuses, s)
	return itemLetters[at : at+1]
}

// Restore adds a unit of a run that was stored: nodes, then open items of map nodes.
func (r *Run) Restore(u *Unit) {
	if u.Item != NoItem {
		r.Items[u.NodeID][u.Item] = u
		return
	}

	r.Nodes[u.NodeID] = u

	for i, letter := range u.States {
		status := itemStatuses[strings.IndexRune(itemLetters, letter)]
		r.Items[u.NodeID] = append(r.Items[u.NodeID], &Unit{NodeID: u.NodeID, Item: i, Status: status, Phase: PhaseWork})
	}

	u.States = ""
}
