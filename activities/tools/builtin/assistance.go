package builtin

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/domain/production"
)

//go:embed readdocument.md
var readDocumentDescription string

//go:embed editdag.md
var editDAGDescription string

//go:embed editarchitecture.md
var editArchitectureDescription string

// maxAssisted bounds the production solutions that one session works on.
const maxAssisted = 20

// SolutionDocuments read and edit the documents of production solutions, with the rights
// of the caller and the validation and versions of the REST interface.
type SolutionDocuments interface {
	// AssistedSolutions are those of the user whose documents the agent of the session edits.
	AssistedSolutions(ctx context.Context, userID string, sessionID domain.SessionID) ([]production.AssistedSolution, error)
	// Elements gives the JSON Schemas of a document's elements: node, edge and $defs.
	Elements(kind domain.DocumentKind) (json.RawMessage, error)
	// Document returns a version as JSON; 0: the newest.
	Document(
		ctx context.Context,
		caller domain.User,
		id string,
		kind domain.DocumentKind,
		version int,
	) (production.StoredDocument, error)
	EditDAG(ctx context.Context, caller domain.User, id string, edit production.DocumentEdit) (production.DocumentEdited, error)
	EditArchitecture(ctx context.Context, caller domain.User, id string, edit production.DocumentEdit) (production.DocumentEdited, error)
}

// assistance gives the sessions that are bound to production solutions with assistance
// the tools that read and edit their documents.
type assistance struct {
	documents SolutionDocuments
	schemas   map[domain.DocumentKind]json.RawMessage // of the arguments of an edit
	logger    *slog.Logger
}

// NewAssistance provides the tools ReadDAG, EditDAG, ReadArchitecture and
// EditArchitecture.
func NewAssistance(documents SolutionDocuments, logger *slog.Logger) (tools.Provider, error) {
	a := assistance{documents, map[domain.DocumentKind]json.RawMessage{}, logger}
	for _, kind := range []domain.DocumentKind{domain.DocumentDAG, domain.DocumentArchitecture} {
		schema, err := a.editSchema(kind)
		if err != nil {
			return nil, fmt.Errorf("schema of an edit: %w", err)
		}

		a.schemas[kind] = schema
	}

	return a, nil
}

// documentEditArguments are the arguments of an edit.
type documentEditArguments struct {
	SolutionID  string            `json:"solution_id"`
	BaseVersion tools.Whole       `json:"base_version"`
	SetNodes    []json.RawMessage `json:"set_nodes"`
	RemoveNodes []string          `json:"remove_nodes"`
	SetEdges    []json.RawMessage `json:"set_edges"`
	RemoveEdges []string          `json:"remove_edges"`
	Message     string            `json:"message"`
}

// documentReadArguments are the arguments of a read.
type documentReadArguments struct {
	SolutionID string   `json:"solution_id,omitempty" jsonschema:"The production solution, if there are several" limits:"..128"`
	Version    int      `json:"version,omitempty" jsonschema:"Default: the newest" limits:"1.."`
	NodeIDs    []string `json:"node_ids,omitempty" jsonschema:"Only these nodes" limits:"..1000" each:"1..64"`
}

// editSchema puts the schemas of the elements into that of the arguments.
func (a assistance) editSchema(kind domain.DocumentKind) (json.RawMessage, error) {
	raw, err := a.documents.Elements(kind)
	if err != nil {
		return nil, err
	}

	var elements struct {
		Node, Edge  json.RawMessage
		Definitions json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(raw, &elements); err != nil {
		return nil, err
	}

	ids := map[string]any{"type": "array", "maxItems": 1000, "items": map[string]any{"type": "string", "minLength": 1, "maxLength": 64}}

	properties := map[string]any{
		"solution_id": map[string]any{
			"type": "string", "maxLength": 128, "description": "The production solution, if there are several",
		},
		"base_version": map[string]any{"type": "integer", "minimum": 1, "description": "The version that the edit is made from"},
		"set_nodes":    map[string]any{"type": "array", "maxItems": 1000, "items": elements.Node},
		"remove_nodes": ids,
		"message":      map[string]any{"type": "string", "maxLength": 2000, "description": "What the edit is for"},
	}
	if kind == domain.DocumentDAG {
		properties["set_edges"] = map[string]any{"type": "array", "maxItems": 5000, "items": elements.Edge}
		properties["remove_edges"] = ids
	}

	return json.Marshal(map[string]any{
		"type": "object", "properties": properties, "required": []string{"base_version"}, "additionalProperties": false,
		"$defs": elements.Definitions,
	})
}

// Tools implements Provider.
func (a assistance) Tools(ctx context.Context, scope tools.Scope) []tools.Tool {
	if !scope.Session.AssistsSolutions {
		return nil
	}

	found, err := a.documents.AssistedSolutions(ctx, scope.Session.OwnerID, scope.Session.ID)
	if err != nil {
		a.logger.Warn("failed to read the production solutions of a session", "session_id", scope.Session.ID, "error", err)
		return nil
	}

	found = found[:min(len(found), maxAssisted)]

	var all []tools.Tool

	for _, kind := range []domain.DocumentKind{domain.DocumentDAG, domain.DocumentArchitecture} {
		list := solutionList(found, kind)
		if list == "" {
			continue
		}

		all = append(all, a.readTool(kind, list), a.editTool(kind, list))
	}

	return all
}

// solutionList lists, for the model, the solutions with a document that the session edits.
func solutionList(found []production.AssistedSolution, kind domain.DocumentKind) string {
	var list strings.Builder

	for _, s := range found {
		if slices.Contains(s.Kinds, kind) {
			fmt.Fprintf(&list, "- %s: %s\n", s.ID, tools.Cut(tools.OneLine(tools.Clean(s.Name)), 200))
		}
	}

	if list.Len() == 0 {
		return ""
	}

	return "\nThe production solutions of this session:\n" + list.String()
}

// documentNames are the kinds of documents in names of tools and in text.
var documentNames = map[domain.DocumentKind]struct{ tool, text string }{
	domain.DocumentDAG:          {"DAG", "DAG"},
	domain.DocumentArchitecture: {"Architecture", "architecture"},
}

func (a assistance) readTool(kind domain.DocumentKind, list string) tools.Tool {
	name := "Read" + documentNames[kind].tool

	return tools.Tool{
		Name: name, DisplayName: "Read " + documentNames[kind].text,
		Spec: domain.ToolSpec{
			Name: name, Description: fmt.Sprintf(readDocumentDescription, documentNames[kind].text, list),
			Parameters: tools.Parameters[documentReadArguments](),
		},
		Executing: true,
		Summary:   tools.SummaryBy("solution_id"),
		Run:       func(ctx context.Context, c *tools.Call) (tools.Result, error) { return a.read(ctx, kind, c) },
	}
}

func (a assistance) editTool(kind domain.DocumentKind, list string) tools.Tool {
	name, description := "Edit"+documentNames[kind].tool, editDAGDescription
	if kind == domain.DocumentArchitecture {
		description = editArchitectureDescription
	}

	return tools.Tool{
		Name: name, DisplayName: "Edit " + documentNames[kind].text,
		Spec: domain.ToolSpec{Name: name, Description: fmt.Sprintf(description, list), Parameters: a.schemas[kind]},
		Acts: true, Executing: true,
		Summary: tools.SummaryBy("message"),
		Run:     func(ctx context.Context, c *tools.Call) (tools.Result, error) { return a.edit(ctx, kind, c) },
	}
}

// solution finds the solution that a call means, by what holds now: the session may have
// been unbound, or the assistance switched off, since the tool was offered.
func (a assistance) solution(ctx context.Context, kind domain.DocumentKind, c *tools.Call, id string) (string, *tools.Result, error) {
	found, err := a.documents.AssistedSolutions(ctx, c.Session.OwnerID, c.Session.ID)
	if err != nil {
		return "", tools.Failed("The production solutions cannot be reached at the moment."), err
	}

	found = slices.DeleteFunc(found, func(s production.AssistedSolution) bool { return !slices.Contains(s.Kinds, kind) })
	text := documentNames[kind].text

	switch {
	case len(found) == 0:
		return "", tools.Failed("This session no longer assists with the %s of a production solution.", text), nil
	case id == "" && len(found) == 1:
		return found[0].ID, nil, nil
	case id == "":
		return "", tools.Failed("This session assists with the %s of several production solutions: give solution_id.", text), nil
	case !slices.ContainsFunc(found, func(s production.AssistedSolution) bool { return s.ID == id }):
		return "", tools.Failed(
			"This session does not assist with the %s of a production solution with the id %s.",
			text,
			tools.Quote(id),
		), nil
	default:
		return id, nil, nil
	}
}

func (a assistance) edit(ctx context.Context, kind domain.DocumentKind, c *tools.Call) (tools.Result, error) {
	in, err := tools.Decode[documentEditArguments](c.Arguments)
	if err != nil {
		return tools.Result{}, err
	}

	id, refused, err := a.solution(ctx, kind, c, in.SolutionID)
	if refused != nil {
		return *refused, err
	}

	edit := a.documents.EditDAG
	if kind == domain.DocumentArchitecture {
		edit = a.documents.EditArchitecture
	}

	made, err := edit(ctx, domain.User{ID: c.Session.OwnerID}, id, production.DocumentEdit{
		BaseVersion: int(in.BaseVersion), SetNodes: in.SetNodes, RemoveNodes: in.RemoveNodes,
		SetEdges: in.SetEdges, RemoveEdges: in.RemoveEdges, Message: domain.CleanText(in.Message),
	})
	if err != nil {
		return editRefused(kind, err)
	}

	var out strings.Builder
	fmt.Fprintf(&out, "The %s is saved as version %d: %d nodes", documentNames[kind].text, made.Version.Version, made.Version.NodeCount)

	if kind == domain.DocumentDAG {
		fmt.Fprintf(&out, ", %d edges", made.Version.EdgeCount)
	}

	out.WriteString(".\n")
	writeFindings(&out, "It cannot be published before these errors, which were there before, are corrected:", made.Validation.Errors)
	writeFindings(&out, "Probably not meant:", made.Validation.Warnings)

	return tools.Result{Output: strings.TrimSpace(out.String())}, nil
}

// editRefused returns why nothing was changed.
func editRefused(kind domain.DocumentKind, err error) (tools.Result, error) {
	e := domain.AsError(err)
	text := documentNames[kind].text

	switch {
	case e.Validation != nil:
		var out strings.Builder
		writeFindings(&out, fmt.Sprintf("The %s was not changed (%s):", text, e.Code), e.Validation.Errors)

		return tools.Result{Output: strings.TrimSpace(out.String()), IsError: true}, nil
	case e.Version != nil:
		return *tools.Failed("The %s was not changed (%s): version %d was saved by user %s at %s. Read it, and make the edit from it.",
			text, e.Code, e.Version.CurrentVersion, e.Version.ChangedBy, e.Version.ChangedAt.UTC().Format("2006-01-02T15:04:05Z")), nil
	}

	if words, ok := tools.Refusal(err); ok {
		return *tools.Failed("The %s was not changed (%s): %s", text, e.Code, tools.Sentence(words)), nil
	}

	return *tools.Failed("The %s cannot be reached at the moment.", text), err
}

// maxFindings bounds the findings of one result.
const maxFindings = 50

func writeFindings(out *strings.Builder, head string, found []domain.Finding) {
	if len(found) == 0 {
		return
	}

	out.WriteString(head + "\n")

	for i, f := range found {
		if i == maxFindings {
			fmt.Fprintf(out, "- and %d more\n", len(found)-i)
			return
		}

		out.WriteString("- " + f.Code)

		for _, part := range []struct{ name, value string }{{"node", f.NodeID}, {"edge", f.EdgeID}, {"at", f.Path}} {
			if part.value != "" {
				fmt.Fprintf(out, ", %s %s", part.name, tools.Cut(tools.OneLine(tools.Clean(part.value)), 200))
			}
		}

		fmt.Fprintf(out, ": %s\n", tools.OneLine(tools.Clean(f.Message)))
	}
}
