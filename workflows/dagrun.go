package workflows

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/dag"
	"everloop/domain/dagrun"
	"everloop/internal/durable"
)

// DAGRun carries a run of a DAG. It decides by domain/dagrun which nodes start, end and are
// skipped; the work of a node is a child workflow: the chats of a session, or the run of a
// subflow. The rows of the run are written by its steps, and are read only to continue in a
// new workflow. Inputs and outputs stay in the database.
func DAGRun(ctx workflow.Context, in contract.DAGRunInput) error {
	steps, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()

	r := &dagRun{
		root: ctx, ctx: steps, id: in.RunID, open: map[*dagrun.Unit]*attempt{}, stopping: map[string]bool{},
		watching: map[*dagrun.Unit]bool{}, capturing: map[*dagrun.Unit]bool{}, ended: map[string]bool{},
	}
	r.placing, r.abandon = workflow.WithCancel(steps)
	r.run = dagrun.Run{Content: r, Nodes: map[string]*dagrun.Unit{}, Items: map[string][]*dagrun.Unit{}}

	workflow.Go(ctx, func(ctx workflow.Context) {
		ctx.Done().Receive(ctx, nil)
		r.again = true
	})

	if err := r.load(); err != nil {
		return err
	}

	for !r.run.Status.Over() {
		if continued, err := r.turn(); continued || err != nil {
			return err
		}
	}

	return r.end()
}

// maxEvents is the length of a history at which a run continues in a new one.
const maxEvents = 2000

// dagRun is a run with what it has under way.
type dagRun struct {
	root workflow.Context // cancelled by an operator or a client
	ctx  workflow.Context // of the steps, which a cancellation does not interrupt
	// placing is cancelled when the run ends: what it has to place can be unavailable for long.
	placing workflow.Context
	abandon workflow.CancelFunc
	id      string
	run     dagrun.Run

	loaded  contract.LoadDAGRunOut // its first page
	numbers map[string]int         // of nodes

	open      map[*dagrun.Unit]*attempt
	stopping  map[string]bool       // by the id of the unit
	watching  map[*dagrun.Unit]bool // units whose activity is read
	capturing map[*dagrun.Unit]bool // units whose files are captured
	ended     map[string]bool       // chats and subflows that ended before their start was recorded
	starting  int                   // attempts whose child has not started
	again     bool                  // there may be something to do
	resumed   bool                  // the run was retried after its end
	err       error                 // of a step in the background
}

// attempt is the work of an attempt of a unit.
type attempt struct {
	number int
	phase  dagrun.Phase
	unitID string
	ready  bool   // its child has started, or never will
	child  string // the id of its workflow; empty: none
}

// load reads the state of the run, page by page.
func (r *dagRun) load() error {
	var leftovers []string

	for from, pages := 0, 0; ; pages++ {
		out, err := contract.LoadDAGRun.LocalNamed(r.ctx, contract.LoadDAGRunIn{RunID: r.id, From: from}, "Load the run")
		if err != nil {
			return err
		}

		if pages == 0 {
			r.loaded = out
		}

		r.run.Graph.Nodes = append(r.run.Graph.Nodes, out.Nodes...)
		r.run.Graph.Edges = append(r.run.Graph.Edges, out.Edges...)

		for _, u := range out.Units {
			if u.Stop {
				leftovers = append(leftovers, u.ID)
				continue
			}

			u.Look = u.Status == dagrun.Running && u.Begun
			r.run.Restore(&u)
		}

		if from = out.Next; from == 0 {
			break
		}
	}

	r.run.Status, r.run.Cancel = r.loaded.Status, r.loaded.Cancel
	r.numbers = map[string]int{}

	for i, n := range r.run.Graph.Nodes {
		r.numbers[n.ID] = i
	}

	for _, id := range leftovers {
		r.stop(id, &attempt{unitID: id, ready: true})
	}

	return nil
}

// turn takes the steps that can be taken now, and waits until there may be more.
func (r *dagRun) turn() (continued bool, err error) {
	r.again = false
	r.receive()

	r.run.Now = workflow.Now(r.ctx)
	r.run.Cancel = r.run.Cancel || r.root.Err() != nil

	err = cmp.Or(r.err, r.run.Advance())
	if err == nil && !r.run.Status.Over() {
		err = r.store()
	}

	if err != nil {
		return false, r.fail(err)
	}

	if r.run.Status.Over() {
		return false, nil
	}

	r.begin()
	r.describe()

	if r.long() && r.root.Err() == nil {
		return r.handOver()
	}

	return false, r.wait()
}

// fail ends the run for a step that failed. A run that has ended, or deleted, stays as it is.
func (r *dagRun) fail(err error) error {
	if code := durable.Code(err); code != dagrun.CodeRunOver && code != dagrun.CodeRunNotFound {
		r.run.Failure = &dagrun.NodeFailure{
			Code: cmp.Or(code, dagrun.CodeAdvance), Message: "a step of the run failed: " + durable.Message(err),
		}
	}

	r.run.Status = dagrun.Failed
	r.run.CancelUnits()

	return nil
}

func (r *dagRun) long() bool {
	info := workflow.GetInfo(r.ctx)
	return info.GetCurrentHistoryLength() >= maxEvents || info.GetContinueAsNewSuggested()
}

// wait waits until there may be something to do.
func (r *dagRun) wait() error {
	due := func() bool {
		return r.again || r.err != nil || r.root.Err() != nil && !r.run.Cancel || contract.ChatEnded.Waiting(r.ctx)
	}
	if r.run.WakeAt == nil {
		return workflow.Await(r.ctx, due)
	}

	_, err := workflow.AwaitWithTimeout(r.ctx, max(1, r.run.WakeAt.Sub(workflow.Now(r.ctx))), due)

	return err
}

// receive finds the units whose chats or subflows may have ended.
func (r *dagRun) receive() {
	for {
		signal, received := contract.ChatEnded.ReceiveAsync(r.ctx)
		if !received {
			return
		}

		id := string(signal.ChatID)
		known := id == ""
		r.resumed = r.resumed || id == ""

		for _, u := range r.run.Units() {
			if u.Begun && (id == "" || string(u.ChatID) == id || u.ChildID == id) {
				u.Look, known = true, true
			}
		}

		if !known {
			r.ended[id] = true
		}
	}
}

// begin starts the attempts that start, stops those that were given up, and reads the
// activity of those that are watched.
func (r *dagRun) begin() {
	for _, u := range r.run.Units() {
		if u.Stop {
			r.stopUnit(u)
		}

		a := r.open[u]
		if u.Status == dagrun.Running && !u.Begun && r.works(u) && (a == nil || a.number != u.Attempt || a.phase != u.Phase) {
			r.start(u)
		}
	}

	for _, u := range r.run.Watch {
		r.watch(u)
	}

	for _, u := range r.run.Capture {
		r.capture(u)
	}
}

// works reports whether a unit works outside the run: a map node leaves that to its items.
func (r *dagRun) works(u *dagrun.Unit) bool {
	return u.Item != dagrun.NoItem || u.Phase == dagrun.PhaseApproval || !r.node(u).Type.Repeats()
}

func (r *dagRun) node(u *dagrun.Unit) dag.Node { return r.run.Graph.Nodes[r.numbers[u.NodeID]] }

func (r *dagRun) try() contract.DAGTry { return contract.DAGTry{RunID: r.id, Try: r.loaded.Try} }

func (r *dagRun) attemptOf(u *dagrun.Unit) contract.DAGAttempt {
	return contract.DAGAttempt{
		DAGNode: contract.DAGNode{DAGTry: r.try(), NodeID: u.NodeID}, Item: u.Item, Attempt: u.Attempt, Phase: u.Phase, Due: u.DueAt,
		Deadline: u.Deadline,
	}
}

// start starts an attempt of a unit as a child workflow, and waits for its end.
func (r *dagRun) start(u *dagrun.Unit) {
	a, in := &attempt{number: u.Attempt, phase: u.Phase}, r.attemptOf(u)
	r.open[u] = a
	r.starting++

	workflow.Go(r.ctx, func(ctx workflow.Context) {
		out, err := r.beginAttempt(ctx, u, in)
		if err != nil {
			out.Rejected = &dagrun.NodeFailure{Code: cmp.Or(durable.Code(err), dagrun.CodeAdvance), Message: durable.Message(err)}
		}

		a.unitID = out.UnitID
		current := u.Status == dagrun.Running && r.open[u] == a

		if current && out.Rejected != nil {
			u.Rejected = out.Rejected
		}

		if current && out.Rejected == nil {
			u.ID, u.SessionID, u.ChatID, u.ChildID, u.Begun = out.UnitID, out.SessionID, out.ChatID, out.ChildID, true
			u.Look = r.ended[string(out.ChatID)] || r.ended[out.ChildID]
			delete(r.ended, string(out.ChatID))
			delete(r.ended, out.ChildID)
		}

		var child workflow.Future
		if current && out.Rejected == nil {
			child = r.startChild(ctx, a, u, out)
		}

		a.ready, r.again = true, true
		r.starting--

		if child == nil {
			return
		}

		_ = child.Get(ctx, nil) // the database knows how it ended

		if u.Begun && r.open[u] == a {
			u.Look, r.again = true, true
		}
	})
}

// beginAttempt puts the files in place that an attempt is given, and begins it.
func (r *dagRun) beginAttempt(ctx workflow.Context, u *dagrun.Unit, in contract.DAGAttempt) (contract.BeginDAGNodeOut, error) {
	if in.Phase == dagrun.PhaseWork && r.node(u).TakesFiles() {
		out, err := contract.PlaceDAGFiles.Start(r.placing, in, "Place the files of "+title(u)).Get(ctx)
		if err != nil || out.Rejected != nil {
			return out, err
		}
	}

	return contract.BeginDAGNode.LocalNamed(ctx, in, "Begin "+title(u))
}

// startChild starts the workflow of an attempt. The workflow of a session may be open
// already, because its user wrote to it: then it is woken.
func (r *dagRun) startChild(ctx workflow.Context, a *attempt, u *dagrun.Unit, out contract.BeginDAGNodeOut) workflow.Future {
	options := workflow.ChildWorkflowOptions{
		// Children outlive a history of the run; the next one stops them by their ids.
		ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON,
		StaticSummary:     "Work of " + title(u),
		StaticDetails:     out.Details,
	}

	var (
		name string
		in   any
	)

	found := durable.Attributes{
		SessionID: string(out.SessionID), OwnerID: out.OwnerID, SolutionID: out.SolutionID,
		ParentRun: workflow.GetInfo(ctx).WorkflowExecution.ID,
	}
	if out.ChildID != "" {
		options.WorkflowID = durable.DAGRunWorkflowID(out.SolutionID, out.ChildID)
		name, in = contract.WorkflowDAGRun, contract.DAGRunInput{RunID: out.ChildID}
		found.Kind = "dag"
	} else {
		options.WorkflowID = durable.SessionWorkflowID(string(out.SessionID))
		name, in = contract.WorkflowChat, contract.ChatInput{SessionID: out.SessionID}
		found.Kind, found.ChatStatus = "chat", "running"
	}

	a.child = options.WorkflowID
	options.TypedSearchAttributes = found.Typed()
	child := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, options), name, in)

	err := child.GetChildWorkflowExecution().Get(ctx, nil)
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		_ = workflow.SignalExternalWorkflow(r.ctx, options.WorkflowID, "", contract.Wake.Name, struct{}{}).Get(r.ctx, nil)
		return nil
	}

	return child
}

// stopUnit stops the work of an attempt of a unit once it has started.
func (r *dagRun) stopUnit(u *dagrun.Unit) {
	a := r.open[u]
	if a == nil {
		a = &attempt{unitID: u.ID, ready: true, child: r.childOf(u)}
	}

	r.stop(u.NodeID+"/"+strconv.Itoa(u.Item), a, func() { u.Stop = false })
}

// childOf returns the id of the workflow of a unit that an earlier workflow of the run started.
func (r *dagRun) childOf(u *dagrun.Unit) string {
	switch {
	case u.ChildID != "":
		return durable.DAGRunWorkflowID(r.node(u).Config.ProdSolutionID, u.ChildID)
	case u.SessionID != "":
		return durable.SessionWorkflowID(string(u.SessionID))
	default:
		return ""
	}
}

// stop cancels a child, and has its chat or its subflow stopped in the database: that keeps
// what it has done, and ends what no child carries.
func (r *dagRun) stop(key string, a *attempt, then ...func()) {
	if r.stopping[key] {
		return
	}

	r.stopping[key] = true

	workflow.Go(r.ctx, func(ctx workflow.Context) {
		_ = workflow.Await(ctx, func() bool { return a.ready })

		if a.unitID != "" {
			if _, err := contract.StopDAGNode.Run(ctx, contract.StopDAGNodeIn{UnitID: a.unitID}, "Stop "+key); err != nil {
				r.err = cmp.Or(r.err, err)
			}
		}

		if a.child != "" { // it may have closed
			_ = workflow.RequestCancelExternalWorkflow(ctx, a.child, "").Get(ctx, nil)
		}

		for _, do := range then {
			do()
		}

		delete(r.stopping, key)

		r.again = true
	})
}

// watch reads the activity of a unit, which fails without any.
func (r *dagRun) watch(u *dagrun.Unit) {
	if r.watching[u] {
		return
	}

	r.watching[u] = true
	in := r.attemptOf(u)

	workflow.Go(r.ctx, func(ctx workflow.Context) {
		out, err := contract.WatchDAGNode.Run(ctx, in, "Look for activity of "+title(u))

		delete(r.watching, u)

		r.again = true

		if current := u.Status == dagrun.Running && u.Attempt == in.Attempt && u.Phase == in.Phase; !current || err != nil {
			return
		}

		u.DueAt, u.Rejected, u.Look = out.Due, out.Failure, out.Failure != nil
	})
}

// capture stores the output files of a unit whose work has ended, and then has its result taken.
func (r *dagRun) capture(u *dagrun.Unit) {
	if r.capturing[u] {
		return
	}

	r.capturing[u] = true
	in := r.attemptOf(u)

	workflow.Go(r.ctx, func(ctx workflow.Context) {
		_, err := contract.CaptureDAGFiles.Run(ctx, in, "Capture the files of "+title(u))

		delete(r.capturing, u)

		r.again = true

		if current := u.Status == dagrun.Running && u.Attempt == in.Attempt && u.Phase == in.Phase; !current {
			return
		}

		u.Look = err == nil
		r.err = cmp.Or(r.err, err)
	})
}

// handOver continues in a new workflow, which takes over the children of this one.
func (r *dagRun) handOver() (continued bool, err error) {
	err = workflow.Await(r.ctx, func() bool {
		return r.root.Err() != nil || r.starting == 0 && len(r.stopping) == 0 && len(r.watching) == 0 && len(r.capturing) == 0
	})
	if err != nil || r.root.Err() != nil {
		return false, err
	}

	r.receive() // the next workflow looks at all that is open

	return true, continueAsNew(r.ctx, contract.WorkflowDAGRun, contract.DAGRunInput{RunID: r.id})
}

// end stops what is still at work, and then writes the end of the run.
func (r *dagRun) end() error {
	r.abandon()

	_ = workflow.Await(r.ctx, func() bool { return r.starting == 0 })

	for _, u := range r.run.Units() {
		if u != nil && u.Stop {
			r.stopUnit(u)
		}
	}

	_ = workflow.Await(r.ctx, func() bool { return len(r.stopping) == 0 })

	r.resumed = false

	if !r.loaded.Status.Over() {
		if err := r.store(); err != nil && durable.Code(err) != dagrun.CodeRunOver && durable.Code(err) != dagrun.CodeRunNotFound {
			return err
		}
	}

	if r.loaded.Parent != "" {
		_ = workflow.SignalExternalWorkflow(r.ctx, r.loaded.Parent, "", contract.ChatEnded.Name,
			contract.EndedChat{ChatID: domain.ChatID(r.id)}).Get(r.ctx, nil)
	}

	if r.receive(); r.resumed { // retried before this workflow has closed
		return continueAsNew(r.ctx, contract.WorkflowDAGRun, contract.DAGRunInput{RunID: r.id})
	}

	if r.run.Status == dagrun.Cancelled {
		return r.root.Err()
	}

	return nil
}

// maxStored bounds the bytes of the units that one step stores, below durable.MaxPayload.
const maxStored = 12 << 10

// store writes the units that changed, and the end of the run.
func (r *dagRun) store() error {
	in := contract.StoreDAGRunIn{DAGTry: r.try()}
	size := 0

	for _, u := range r.run.Units() {
		if u == nil || !u.Changed {
			continue
		}

		u.Changed = false

		encoded, _ := json.Marshal(u) // of strings and numbers
		if size += len(encoded); size > maxStored && len(in.Units) > 0 {
			if _, err := contract.StoreDAGRun.LocalNamed(r.ctx, in, "Store the state of nodes"); err != nil {
				return err
			}

			in.Units, size = nil, len(encoded)
		}

		in.Units = append(in.Units, *u)
	}

	over := r.run.Status.Over()
	if over {
		in.Status, in.Failure = r.run.Status, r.run.Failure
	}

	if len(in.Units) == 0 && !over {
		return nil
	}

	_, err := contract.StoreDAGRun.LocalNamed(r.ctx, in, "Store the state of the run")

	return err
}

// describe sets what operators see of the run: what it works on and waits for.
func (r *dagRun) describe() {
	over, names := 0, []string{}

	for _, u := range r.run.Units() {
		switch {
		case u.Item != dagrun.NoItem:
		case u.Status.Over():
			over++
		case u.Status != dagrun.Pending && len(names) < maxNames:
			name := "- " + u.NodeID + ": " + string(u.Status)
			if u.SessionID != "" {
				name += ", session " + string(u.SessionID)
			}

			names = append(names, name)
		}
	}

	workflow.SetCurrentDetails(r.ctx, fmt.Sprintf("%d of %d nodes have ended\n\n%s", over, len(r.run.Nodes), strings.Join(names, "\n")))
}

// maxNames bounds the nodes that the details of a run list.
const maxNames = 20

func title(u *dagrun.Unit) string {
	text := "node " + u.NodeID
	if u.Item != dagrun.NoItem {
		text += ", item " + strconv.Itoa(u.Item)
	}

	if u.Attempt > 1 {
		text += ", attempt " + strconv.Itoa(u.Attempt)
	}

	return text
}

// Activate implements dagrun.Content.
func (r *dagRun) Activate(n dag.Node, before []string, start bool) (dagrun.Outcome, error) {
	numbers := make([]int, len(before))
	for i, id := range before {
		numbers[i] = r.numbers[id]
	}

	return contract.ActivateDAGNode.LocalNamed(r.ctx, contract.ActivateDAGNodeIn{
		DAGNode: contract.DAGNode{DAGTry: r.try(), NodeID: n.ID}, Before: numbers, Start: start,
	}, "Activate node "+n.ID)
}

// Start implements dagrun.Content.
func (r *dagRun) Start(n dag.Node) (dagrun.Outcome, error) {
	return contract.StartDAGNode.LocalNamed(r.ctx, contract.DAGNode{DAGTry: r.try(), NodeID: n.ID}, "Start node "+n.ID)
}

// Take implements dagrun.Content.
func (r *dagRun) Take(u *dagrun.Unit) (dagrun.Outcome, error) {
	return contract.TakeDAGNode.LocalNamed(r.ctx, r.attemptOf(u), "Take the result of "+title(u))
}

// Gather implements dagrun.Content.
func (r *dagRun) Gather(n dag.Node) (dagrun.Outcome, error) {
	return contract.GatherDAGNode.LocalNamed(r.ctx, contract.DAGNode{DAGTry: r.try(), NodeID: n.ID}, "Gather the items of node "+n.ID)
}

// Follows implements dagrun.Content.
func (r *dagRun) Follows(e dag.Edge) (dagrun.Outcome, error) {
	number, err := strconv.Atoi(e.ID)
	if err != nil {
		return dagrun.Outcome{}, err
	}

	return contract.FollowDAGEdge.LocalNamed(r.ctx, contract.DAGEdge{DAGTry: r.try(), Edge: number},
		"Evaluate the edge from "+e.Source+" to "+e.Target)
}
