package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/domain/production"
)

// oneDocument is one production solution with one document.
type oneDocument struct {
	SolutionDocuments
	assisted []production.AssistedSolution
	content  string
	edits    []production.DocumentEdit
	err      error
}

func (d *oneDocument) AssistedSolutions(_ context.Context, userID string, _ domain.SessionID) ([]production.AssistedSolution, error) {
	if userID != "ann" {
		return nil, nil
	}

	return d.assisted, nil
}

func (d *oneDocument) Elements(domain.DocumentKind) (json.RawMessage, error) {
	return json.RawMessage(`{"node": {"$ref": "#/$defs/Node"}, "edge": {"type": "object"},
		"$defs": {"Node": {"type": "object", "required": ["id"]}}}`), nil
}

func (d *oneDocument) Document(context.Context, domain.User, string, domain.DocumentKind, int) (production.StoredDocument, error) {
	return production.StoredDocument{DocumentVersion: domain.DocumentVersion{Version: 3}, Content: []byte(d.content)}, d.err
}

func (d *oneDocument) EditDAG(_ context.Context, caller domain.User, _ string, edit production.DocumentEdit) (
	made production.DocumentEdited, err error,
) {
	if caller.Administrator || caller.ID != "ann" {
		return made, production.NotFound("p")
	}

	d.edits = append(d.edits, edit)
	made.Version.Version = edit.BaseVersion + 1

	return made, d.err
}

func assistingTools(t *testing.T, d *oneDocument, owner string) *tools.Toolset {
	t.Helper()

	provider, err := NewAssistance(d, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	registry, err := New(tools.Deps{})
	require.NoError(t, err)
	registry.Provide(provider)

	session := domain.Session{ID: "s", OwnerID: owner, AssistsSolutions: true}

	return registry.For(t.Context(), tools.Scope{Session: session, Mode: domain.ModeExecuting})
}

// use admits and runs a call as the worker does.
func use(t *testing.T, set *tools.Toolset, name, arguments string) tools.Result {
	t.Helper()

	tool, checked, refused := set.Admit(name, arguments)
	if refused != nil {
		return *refused
	}

	result, err := tool.Run(t.Context(), &tools.Call{Session: tools.SessionView{ID: "s", OwnerID: "ann"}, Arguments: checked})
	require.NoError(t, err)

	return result
}

func TestAssistance_isOfferedForWhatIsBound(t *testing.T) {
	t.Parallel()

	d := &oneDocument{assisted: []production.AssistedSolution{{ID: "p", Name: "Reports", Kinds: []domain.DocumentKind{domain.DocumentDAG}}}}
	set := assistingTools(t, d, "ann")
	require.Subset(t, namesOf(set), []string{"ReadDAG", "EditDAG"})
	require.NotContains(t, namesOf(set), "EditArchitecture")
	tool, _ := set.Lookup("EditDAG")
	require.Contains(t, tool.Spec.Description, "- p: Reports")
	require.True(t, tool.Acts, "an edit is carried out at most once")

	read, _ := set.Lookup("ReadDAG")
	require.False(t, read.Planning, "planning mode has its own five tools and no other")
	require.NotContains(t, namesOf(assistingTools(t, d, "bob")), "ReadDAG")
}

func TestAssistance_checksAtEachCall(t *testing.T) {
	t.Parallel()

	d := &oneDocument{assisted: []production.AssistedSolution{{ID: "p", Kinds: []domain.DocumentKind{domain.DocumentDAG}}}}
	set := assistingTools(t, d, "ann")
	require.Contains(t, use(t, set, "EditDAG", `{"base_version": 3, "set_nodes": [{"name": "x"}]}`).Output, "id")
	require.Empty(t, d.edits, "what does not follow the schema is not tried")
	require.False(t, use(t, set, "EditDAG", `{"base_version": 3, "set_nodes": [{"id": "x"}]}`).IsError)
	require.Len(t, d.edits, 1)

	d.err = domain.NewVersionConflict(domain.DocumentVersion{Version: 7, CreatedBy: "bob"})

	require.Contains(t, use(t, set, "EditDAG", `{"base_version": 3}`).Output, "(version_conflict): version 7 was saved by user bob")

	d.err = nil
	d.assisted = nil // switched off since the tool was offered
	late := use(t, set, "EditDAG", `{"base_version": 3}`)
	require.True(t, late.IsError)
	require.Contains(t, late.Output, "no longer assists")
	require.Len(t, d.edits, 2)
}

func TestAssistance_longDocumentIsAnOutline(t *testing.T) {
	t.Parallel()

	d := &oneDocument{assisted: []production.AssistedSolution{{ID: "p", Kinds: []domain.DocumentKind{domain.DocumentDAG}}}}
	node := func(id string) string {
		return fmt.Sprintf(`{"id": %q, "type": "agent", "config": {"prompt": %q}}`, id, strings.Repeat(id, 40_000))
	}
	d.content = `{"nodes": [` + node("a") + `,` + node("b") + `], "edges": [{"id": "e", "source": "a", "target": "b"}]}`
	set := assistingTools(t, d, "ann")
	outline := use(t, set, "ReadDAG", `{}`).Output
	require.Contains(t, outline, "outline")
	require.Less(t, len(outline), 1000)
	one := use(t, set, "ReadDAG", `{"node_ids": ["b"]}`).Output
	require.True(t, strings.Contains(one, "bbbb") && strings.Contains(one, `"source":"a"`), tools.Cut(one, 200))
	require.False(t, strings.Contains(one, "aaaa"), tools.Cut(one, 200))
	require.Contains(t, use(t, set, "ReadDAG", `{"node_ids": ["c"]}`).Output, `has no node "c"`)
}
