package dagrun

import (
	"encoding/json"
	"fmt"

	"everloop/domain"
	"everloop/domain/dag"
	"everloop/domain/expression"
	"everloop/domain/schema"
)

// Values resolve what depends on the inputs and the outputs of a run. Output reads the
// output of a node, null when it has none; its first error stays in Err.
type Values struct {
	Inputs json.RawMessage
	Output func(nodeID string) (json.RawMessage, error)
	Err    error

	decoded map[string]any
	input   any
	read    bool
}

func (v *Values) output(nodeID string) any {
	if value, known := v.decoded[nodeID]; known || v.Err != nil {
		return value
	}

	raw, err := v.Output(nodeID)
	if err != nil {
		v.Err = err
		return nil
	}

	if v.decoded == nil {
		v.decoded = map[string]any{}
	}

	v.decoded[nodeID] = decode(raw)

	return v.decoded[nodeID]
}

func (v *Values) scope(item any) scope {
	if !v.read {
		v.input, v.read = decode(v.Inputs), true
	}

	return scope{outputs: v.output, input: v.input, item: item}
}

// Request resolves the input of a node from its predecessors.
func (v *Values) Request(n dag.Node, before []string) (Request, *NodeFailure) {
	limit := MaxRequestText
	if Immediate(n.Type) || n.Type.Repeats() {
		limit = MaxTotal
	}

	left := limit

	request := v.scope(nil).resolve(n, before, &left)
	if left < 0 || limit == MaxRequestText && len(asText(request)) > limit {
		return request, tooLarge(limit)
	}

	return request, nil
}

func tooLarge(limit int) *NodeFailure {
	return &NodeFailure{CodeInvalidInputs, fmt.Sprintf("the inputs of the node have more than %d bytes", limit)}
}

// Items resolves the inputs of a map node's items.
func (v *Values) Items(n dag.Node, of Request) ([]Request, *NodeFailure) {
	items, isList := of.Inputs["items"].([]any)
	if !isList || len(items) > MaxItems {
		return nil, &NodeFailure{CodeInvalidItems, fmt.Sprintf("items must be a list of at most %d entries", MaxItems)}
	}

	total, requests := MaxItemText, make([]Request, len(items))

	for i, item := range items {
		limit := min(total, MaxRequestText)
		left := limit

		request := v.scope(item).resolve(n, nil, &left)
		if left < 0 {
			return nil, tooLarge(limit)
		}

		total -= limit - left
		request.Inputs, request.Files = map[string]any{"item": item}, of.Files
		requests[i] = request
	}

	return requests, nil
}

// Iteration is an iteration of a loop.
type Iteration struct {
	Number   int             // from 1
	Previous json.RawMessage // the output of the iteration before it; nil: it is the first one
	Output   json.RawMessage // its own; nil: it has not ended
}

func (i Iteration) value() any {
	return map[string]any{
		dag.LoopIteration: float64(i.Number), dag.LoopPrevious: decode(i.Previous), dag.LoopOutput: decode(i.Output),
	}
}

// Iterate resolves the input of an iteration of a loop, which is given the outputs of the nodes
// before the loop.
func (v *Values) Iterate(n dag.Node, of Request, i Iteration) (Request, *NodeFailure) {
	left := MaxRequestText

	request := v.scope(i.value()).resolve(n, nil, &left)
	for _, b := range of.Before {
		left -= sizeOf(b.Output, max(left, 0))
	}

	if left < 0 {
		return request, tooLarge(MaxRequestText)
	}

	request.Before = of.Before

	return request, nil
}

// Ends reports whether a loop ends after an iteration, and its outcome. A condition that cannot
// be evaluated within the bounds of domain/expression fails the loop.
func (v *Values) Ends(n dag.Node, i Iteration) (outcome string, failure *NodeFailure) {
	c := configOf(n)

	holds, err := dag.Holds(c.Condition, v.scope(i.value()).value, expression.NewBudget())

	switch {
	case err != nil:
		return "", &NodeFailure{CodeCondition, cut(fmt.Sprintf("the condition of loop %s cannot be evaluated after iteration %d: %v",
			n.ID, i.Number, err))}
	case holds:
		return dag.LoopConditionMet, nil
	case i.Number >= min(c.Max, dag.MaxIterations):
		return dag.LoopMaxReached, nil
	default:
		return "", nil
	}
}

// LoopOutput returns the output of a loop that has ended.
func LoopOutput(outcome string, last Iteration) json.RawMessage {
	raw, _ := marshal(map[string]any{"outcome": outcome, "iterations": last.Number, "output": last.Output}) // of JSON
	return raw
}

// Follows reports whether the answer and the condition of an edge hold. A condition that
// cannot be evaluated within the bounds of domain/expression is a failure of the run.
func (v *Values) Follows(source dag.Node, e dag.Edge) (bool, *NodeFailure) {
	if source.Type == dag.Human && e.SourceHandle != "" && e.SourceHandle != asText(v.output(e.Source)) {
		return false, nil
	}

	if e.Condition == "" {
		return true, nil
	}

	holds, err := dag.Holds(e.Condition, v.scope(nil).value, expression.NewBudget())
	if err != nil {
		return false, &NodeFailure{CodeCondition, cut(fmt.Sprintf("the condition of edge %s cannot be evaluated: %v", e.ID, err))}
	}

	return holds, nil
}

// Result is the output of a run: the output of its end, or of its ends by their ids. The output
// of a run of one node is the output of that node.
func (v *Values) Result(g dag.Graph, only string, completed func(nodeID string) bool) json.RawMessage {
	if only != "" {
		raw, _ := marshal(v.output(only)) // of JSON
		return raw
	}

	ends := map[string]any{}

	var last any

	for _, n := range g.Nodes {
		if n.Type == dag.End && completed(n.ID) {
			last = v.output(n.ID)
			ends[n.ID] = last
		}
	}

	if len(ends) == 1 {
		raw, _ := marshal(last) // of JSON
		return raw
	}

	raw, _ := marshal(ends) // of JSON

	return raw
}

// Passed is the output of a node that does no work: its inputs, else the outputs of the
// nodes before it.
func (q Request) Passed() json.RawMessage {
	var value any

	switch {
	case len(q.Inputs) > 0:
		value = q.Inputs
	case len(q.Before) == 1:
		value = q.Before[0].Output
	default:
		outputs := map[string]any{}
		for _, b := range q.Before {
			outputs[b.NodeID] = b.Output
		}

		value = outputs
	}

	raw, _ := marshal(value) // of JSON

	return raw
}

// Digests returns the digest of a node's definition, and the digest of its input.
func Digests(n dag.Node, request Request) (definitionDigest, inputs string) {
	return Definition(n), digestOf(request)
}

// Reuse chooses an earlier output of the same node, or returns why none is used.
func Reuse(earlier []Earlier, definition, inputs string) (chosen *Earlier, reason string) {
	for i, e := range earlier {
		switch {
		case e.Kept:
			return &earlier[i], ReuseKept
		case e.Barred:
			reason = ReuseRestarted
		case e.Definition != definition:
			reason = ReuseDefinitionChanged
		case e.Inputs != inputs:
			reason = ReuseInputsChanged
		default:
			return &earlier[i], ReuseSameInputs
		}
	}

	return nil, reason
}

// SchemaOf is the schema of the output of a node, or of one of its items.
func SchemaOf(n dag.Node, item int) map[string]json.RawMessage {
	switch {
	case n.Type == dag.Loop && item == NoItem:
		return nil
	case n.Type == dag.Loop, item == NoItem:
		return n.OutputSchema
	}

	var inner map[string]json.RawMessage
	if raw, found := n.OutputSchema["items"]; found && json.Unmarshal(raw, &inner) == nil {
		return inner
	}

	return nil
}

// OutputOf returns the output of a unit, derived from the result of its work.
func OutputOf(n dag.Node, item int, result Result) (json.RawMessage, *NodeFailure) {
	if result.Failure != nil {
		return nil, result.Failure
	}

	outputSchema := SchemaOf(n, item)

	output := result.JSON
	switch {
	case output != nil:
	case outputSchema != nil:
		parsed, err := schema.JSONAnswer(result.Text)
		if err != nil {
			return nil, &NodeFailure{CodeInvalidOutput, "the output is not one JSON value, as output_schema asks for"}
		}

		output = parsed
	default:
		output, _ = marshal(domain.CleanText(result.Text))
	}

	if failure := CheckOutput(outputSchema, output); failure != nil {
		return nil, failure
	}

	if len(output) > MaxOutput {
		return nil, OutputTooLarge(len(output))
	}

	return output, nil
}

// OutputTooLarge is the failure of a node whose output exceeds its bound, or the bound of
// all outputs of the run.
func OutputTooLarge(size int) *NodeFailure {
	return &NodeFailure{
		CodeOutputTooLarge,
		fmt.Sprintf("the output has %d bytes: one may have %d, those of a run together %d", size, MaxOutput, MaxTotal),
	}
}

// Skeleton is the part of a graph that decisions need, without texts: an edge has its number
// as its id, and a mark where it has an answer or a condition.
func Skeleton(g dag.Graph) (out dag.Graph) {
	for _, n := range g.Nodes {
		small := dag.Node{
			ID: n.ID, Type: n.Type, Retry: shortCodes(n.Retry), TimeoutS: n.TimeoutS, HeartbeatS: n.HeartbeatS, OnError: n.OnError,
			Concurrency: n.Concurrency,
		}

		if c := configOf(n); c.WaitS > 0 || c.ProdSolutionID != "" {
			small.Config = &dag.Config{WaitS: c.WaitS, ProdSolutionID: c.ProdSolutionID}
		}

		if n.Approval != nil {
			small.Approval = &dag.Approval{Policy: n.Approval.Policy}
		}

		if n.TakesFiles() {
			small.Workspace = mark
		}

		out.Nodes = append(out.Nodes, small)
	}

	for i, e := range g.Edges {
		small := dag.Edge{ID: fmt.Sprint(i), Source: e.Source, Target: e.Target, Kind: e.Kind}
		if e.SourceHandle != "" {
			small.SourceHandle = mark
		}

		if e.Condition != "" {
			small.Condition = mark
		}

		out.Edges = append(out.Edges, small)
	}

	return out
}

const mark = "*"

// shortCodes leaves out codes that are longer than any code is.
func shortCodes(retry *dag.Retry) *dag.Retry {
	if retry == nil {
		return nil
	}

	short := *retry
	short.NonRetryable = nil

	for _, code := range retry.NonRetryable {
		if len(code) <= maxCode {
			short.NonRetryable = append(short.NonRetryable, code)
		}
	}

	return &short
}

const maxCode = 100 // bytes of the code of a failure
