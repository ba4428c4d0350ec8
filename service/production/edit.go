package production

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"everloop/domain"
	"everloop/domain/architecture"
	"everloop/domain/dag"
	"everloop/domain/production"
)

// EditDAG changes nodes and edges of the newest version, which must be the base, and
// saves the result as SaveDAG does. It is rejected with validation_failed if the result
// has an error that the base did not have, so that a DAG can be built in several edits
// and none makes it worse.
func (s *Service) EditDAG(
	ctx context.Context,
	caller domain.User,
	id string,
	edit production.DocumentEdit,
) (production.DocumentEdited, error) {
	var base dag.Graph
	if err := s.base(ctx, caller, id, domain.DocumentDAG, edit.BaseVersion, &base); err != nil {
		return production.DocumentEdited{}, err
	}

	var found findings

	next := base
	next.Nodes = change(&found, "nodes", base.Nodes, edit.SetNodes, edit.RemoveNodes, func(n dag.Node) string { return n.ID },
		func(n, before dag.Node) dag.Node {
			if n.Position == nil {
				n.Position = before.Position
			}

			return n
		})
	// The edges of a removed node go with it; one that is set in the same edit is checked.
	kept := slices.DeleteFunc(slices.Clone(base.Edges), func(e dag.Edge) bool {
		return slices.Contains(edit.RemoveNodes, e.Source) || slices.Contains(edit.RemoveNodes, e.Target)
	})
	edit.RemoveEdges = slices.DeleteFunc(slices.Clone(edit.RemoveEdges), func(id string) bool {
		named := func(e dag.Edge) bool { return e.ID == id }
		return slices.ContainsFunc(base.Edges, named) && !slices.ContainsFunc(kept, named)
	})
	next.Edges = change(&found, "edges", kept, edit.SetEdges, edit.RemoveEdges, func(e dag.Edge) string { return e.ID }, nil)

	next = next.Complete()
	if err := s.checkEdit(domain.DocumentDAG, next, found); err != nil {
		return production.DocumentEdited{}, err
	}

	before, err := s.ValidateDAG(ctx, caller, id, base)
	if err != nil {
		return production.DocumentEdited{}, err
	}

	after, err := s.ValidateDAG(ctx, caller, id, next)
	if err != nil {
		return production.DocumentEdited{}, err
	}

	return s.saveEdit(ctx, caller, id, domain.DocumentDAG, edit, next, before, after)
}

// EditArchitecture is EditDAG for the architecture, which has no edges.
func (s *Service) EditArchitecture(ctx context.Context, caller domain.User, id string, edit production.DocumentEdit) (
	production.DocumentEdited, error,
) {
	var base architecture.Document
	if err := s.base(ctx, caller, id, domain.DocumentArchitecture, edit.BaseVersion, &base); err != nil {
		return production.DocumentEdited{}, err
	}

	var found findings

	next := base

	next.Nodes = change(&found, "nodes", base.Nodes, edit.SetNodes, edit.RemoveNodes, func(c architecture.Component) string { return c.ID },
		func(c, before architecture.Component) architecture.Component {
			if c.Position == nil {
				c.Position = before.Position
			}

			if c.Size == nil {
				c.Size = before.Size
			}

			return c
		})
	if err := s.checkEdit(domain.DocumentArchitecture, next, found); err != nil {
		return production.DocumentEdited{}, err
	}

	return s.saveEdit(ctx, caller, id, domain.DocumentArchitecture, edit, next, architecture.Validate(base), architecture.Validate(next))
}

// Elements returns the JSON Schemas of the elements of a document as the members node, edge
// and $defs; an architecture has no edge.
func (s *Service) Elements(kind domain.DocumentKind) (json.RawMessage, error) {
	node, edge, definitions := s.shapes.elements(kind)
	return json.Marshal(map[string]any{"node": node, "edge": edge, "$defs": definitions})
}

// base reads the newest version of a document, and rejects another base.
func (s *Service) base(ctx context.Context, caller domain.User, id string, kind domain.DocumentKind, base int, into any) error {
	stored, err := s.Document(ctx, caller, id, kind, 0)
	if err != nil {
		return err
	}

	if stored.Version != base {
		return domain.NewVersionConflict(stored.DocumentVersion)
	}

	return json.Unmarshal(stored.Content, into)
}

// checkEdit rejects an edit that names what does not exist, or whose result does not have
// the shape of a document.
func (s *Service) checkEdit(kind domain.DocumentKind, next any, found findings) error {
	if len(found) == 0 {
		shape, err := s.shapes.check(kind, next)
		if err != nil {
			return err
		}

		found = shape
	}

	if len(found) == 0 {
		return nil
	}

	return domain.Validation{Errors: found, Warnings: []domain.Finding{}}.Failed(kind)
}

func (s *Service) saveEdit(ctx context.Context, caller domain.User, id string, kind domain.DocumentKind, edit production.DocumentEdit,
	next encoder, before, after domain.Validation,
) (made production.DocumentEdited, err error) {
	if added := newErrors(before.Errors, after.Errors); len(added) > 0 {
		return made, domain.Validation{Errors: added, Warnings: after.Warnings}.Failed(kind)
	}

	made.Validation = after
	made.Version, err = s.save(ctx, caller, id, kind, edit.BaseVersion, next, edit.Message)

	return made, err
}

type findings []domain.Finding

// change applies the changes to one list of elements. What is set is given as JSON; keep
// takes over what it leaves out from the element before it, and may be nil.
func change[T any](found *findings, list string, before []T, set []json.RawMessage, remove []string, id func(T) string,
	keep func(element, before T) T,
) []T {
	after := slices.Clone(before)

	at := func(wanted string) int { return slices.IndexFunc(after, func(e T) bool { return id(e) == wanted }) }
	for i, named := range remove {
		k := at(named)
		if k < 0 {
			*found = append(*found, domain.Finding{
				Code: CodeUnknownElement, Message: fmt.Sprintf("%q cannot be removed: there is none with this id", named),
				Path: fmt.Sprintf("remove_%s[%d]", list, i),
			})

			continue
		}

		after = slices.Delete(after, k, k+1)
	}

	given := map[string]bool{}

	for i, raw := range set {
		path := fmt.Sprintf("set_%s[%d]", list, i)

		element, problem := decodeStrictly[T](raw, path)
		if problem == nil && given[id(element)] {
			problem = &domain.Finding{
				Code: dag.CodeDuplicateID, Message: fmt.Sprintf("%q is given twice", id(element)), Path: path + ".id",
			}
		}

		if problem != nil {
			*found = append(*found, *problem)
			continue
		}

		given[id(element)] = true

		k := at(id(element))
		switch {
		case k < 0:
			after = append(after, element)
		case keep != nil:
			after[k] = keep(element, after[k])
		default:
			after[k] = element
		}
	}

	return after
}

// CodeUnknownElement is the code of a finding about an edit that removes what is not there.
const CodeUnknownElement = "unknown_element"

// newErrors gives the errors of a document that it did not have before.
func newErrors(before, after []domain.Finding) (added []domain.Finding) {
	known := map[domain.Finding]bool{}

	for _, f := range before {
		f.Path = "" // elements move within their list
		known[f] = true
	}

	for _, f := range after {
		key := f

		key.Path = ""
		if !known[key] {
			added = append(added, f)
		}
	}

	return added
}
