package dagruns

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"everloop/domain"
	"everloop/domain/dag"
	"everloop/domain/dagrun"
)

// RunNode starts a run of one node, which is given pinned outputs of the nodes before it.
func (s *Service) RunNode(ctx context.Context, caller domain.User, solutionID string, in dagrun.OneNode) (dagrun.RunRecord, error) {
	graph, version, ownerID, err := s.cfg.Production.RunnableDAG(ctx, caller, solutionID, in.Version)
	if err != nil {
		return dagrun.RunRecord{}, err
	}

	part, found := graph.Part(in.NodeID)
	if !found {
		return dagrun.RunRecord{}, domain.Newf(domain.NotFound, dagrun.CodeNodeNotFound, "version %d has no node %s", version, in.NodeID)
	}

	pinned, missing, err := pinnedOf(graph, part, in)
	if err != nil {
		return dagrun.RunRecord{}, err
	}

	if len(missing) > 0 || in.Inputs == nil {
		earlier, inputs, err := s.earlierOf(ctx, solutionID, missing)
		if err != nil {
			return dagrun.RunRecord{}, err
		}

		pinned = append(pinned, earlier...)

		if in.Inputs == nil {
			in.Inputs = inputs
		}
	}

	if err := checkInputs(graph, in.Inputs); err != nil {
		return dagrun.RunRecord{}, err
	}

	for _, n := range part.Nodes {
		if n.Type == dag.Start && n.ID != in.NodeID {
			pinned = append(pinned, dagrun.Pinned{NodeID: n.ID, Output: in.Inputs})
		}
	}

	return s.create(ctx, caller, dagrun.New{
		ID: domain.NewID(), SolutionID: solutionID, OwnerID: ownerID, Version: version, Trigger: dagrun.TriggerAPI, Inputs: in.Inputs,
		Nodes: []string{in.NodeID}, NodeID: in.NodeID, Pinned: pinned,
	})
}

// pinnedOf checks the outputs that the caller gave, and returns the nodes whose outputs are missing.
func pinnedOf(graph, part dag.Graph, in dagrun.OneNode) (pinned []dagrun.Pinned, missing []string, err error) {
	size, rest := 0, maps.Clone(in.Outputs)

	for _, n := range part.Nodes {
		output, present := in.Outputs[n.ID]

		switch {
		case n.ID == in.NodeID, n.Type == dag.Start:
			continue
		case present:
			failure := dagrun.CheckOutput(n.OutputSchema, output)
			if size += len(output); failure == nil && (len(output) > dagrun.MaxOutput || size > dagrun.MaxTotal) {
				failure = dagrun.OutputTooLarge(len(output))
			}

			if failure != nil {
				return nil, nil, domain.Invalidf("body.outputs."+n.ID, "%s", failure.Message)
			}

			pinned = append(pinned, dagrun.Pinned{NodeID: n.ID, Output: output})
		case graph.OnlyAfterError(n.ID, in.NodeID):
			pinned = append(pinned, dagrun.Pinned{NodeID: n.ID, Output: []byte("null")})
		default:
			missing = append(missing, n.ID)
		}

		delete(rest, n.ID)
	}

	for _, id := range slices.Sorted(maps.Keys(rest)) {
		return nil, nil, domain.Invalidf("body.outputs."+id, "is not an output that node %s is given", in.NodeID)
	}

	return pinned, missing, nil
}

// earlierOf returns the outputs of some nodes, and the inputs, of the newest run that has them all.
func (s *Service) earlierOf(ctx context.Context, solutionID string, nodes []string) ([]dagrun.Pinned, []byte, error) {
	inputs, pinned, err := s.NewestOutputs(ctx, solutionID, nodes)
	if err == nil && len(pinned) < len(nodes) {
		err = domain.Invalidf("body.outputs", "%s", fmt.Sprintf("no run has the outputs of %s: give them", strings.Join(nodes, ", ")))
	}

	if inputs == nil {
		inputs = []byte("{}")
	}

	return pinned, inputs, err
}
