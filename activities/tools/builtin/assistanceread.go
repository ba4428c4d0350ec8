package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/domain/production"
)

// maxDocument bounds, in bytes, a document that is given whole.
const maxDocument = 60_000

// elementHead is what every element of a document has, and what an outline shows of it.
type elementHead struct {
	ID       string `json:"id"`
	Type     string `json:"type,omitempty"`
	Name     string `json:"name,omitempty"`
	Source   string `json:"source,omitempty"`
	Target   string `json:"target,omitempty"`
	ParentID string `json:"parent_id,omitempty"`
}

// element is a node or an edge with its content.
type element struct {
	elementHead
	raw json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *element) UnmarshalJSON(raw []byte) error {
	e.raw = slices.Clone(raw)
	return json.Unmarshal(raw, &e.elementHead)
}

// shownDocument is what the model reads of a document.
type shownDocument struct {
	Version          int    `json:"version"`
	PublishedVersion *int   `json:"published_version,omitempty"`
	Note             string `json:"note,omitempty"`
	Nodes            []any  `json:"nodes"`
	Edges            []any  `json:"edges,omitempty"`
}

func (a assistance) read(ctx context.Context, kind domain.DocumentKind, c *tools.Call) (tools.Result, error) {
	in, err := tools.Decode[documentReadArguments](c.Arguments)
	if err != nil {
		return tools.Result{}, err
	}

	id, refused, err := a.solution(ctx, kind, c, in.SolutionID)
	if refused != nil {
		return *refused, err
	}

	stored, err := a.documents.Document(ctx, domain.User{ID: c.Session.OwnerID}, id, kind, in.Version)
	if words, ok := tools.Refusal(err); err != nil && ok {
		return *tools.Failed("%s", tools.Sentence(words)), nil
	}

	if err != nil {
		return *tools.Failed("The %s cannot be reached at the moment.", documentNames[kind].text), err
	}

	shown, missing, err := showDocument(stored, in.NodeIDs)
	if err != nil {
		return tools.Result{}, err
	}

	if missing != "" {
		return *tools.Failed("Version %d of the %s has no node %s.", stored.Version, documentNames[kind].text, tools.Quote(missing)), nil
	}

	var out strings.Builder

	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // conditions hold < and >
	err = encoder.Encode(shown)

	return tools.Result{Output: strings.TrimSpace(out.String())}, err
}

// showDocument chooses what the model reads. missing is a node that does not exist.
func showDocument(stored production.StoredDocument, nodes []string) (shown shownDocument, missing string, err error) {
	var document struct{ Nodes, Edges []element }
	if err := json.Unmarshal(stored.Content, &document); err != nil {
		return shown, "", fmt.Errorf("read version %d: %w", stored.Version, err)
	}

	shown = shownDocument{Version: stored.Version, PublishedVersion: stored.PublishedVersion, Nodes: []any{}}

	outline := len(nodes) == 0 && len(stored.Content) > maxDocument
	if outline {
		shown.Note = "This is an outline, because the document is long: give node_ids to read nodes."
	}

	for _, id := range nodes {
		if !slices.ContainsFunc(document.Nodes, func(e element) bool { return e.ID == id }) {
			return shown, id, nil
		}
	}

	show := func(e element) any {
		if outline {
			return e.elementHead
		}

		return e.raw
	}

	for _, node := range document.Nodes {
		if len(nodes) == 0 || slices.Contains(nodes, node.ID) {
			shown.Nodes = append(shown.Nodes, show(node))
		}
	}

	for _, edge := range document.Edges {
		if len(nodes) == 0 || slices.Contains(nodes, edge.Source) || slices.Contains(nodes, edge.Target) {
			shown.Edges = append(shown.Edges, show(edge))
		}
	}

	return shown, "", nil
}
