package tools

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"everloop/domain"
	"everloop/domain/permission"
)

// Names of tools that are not run; what becomes of their calls instead.
const (
	AskUserQuestion = "AskUserQuestion" // put to the user
	SubmitPlan      = "SubmitPlan"      // becomes a block of type plan
)

// Scope says for whom tools are offered: a loop of a chat in a session.
type Scope struct {
	Session  domain.Session
	Mode     domain.Mode
	Headless bool
	LoopID   string
	Depth    int      // of the loop's sub-agent; 0: the main loop
	Only     []string // names of the only tools that a sub-agent gets; nil: all
	Profile  domain.Profile
}

// Provider adds tools that depend on the session: those of its tool servers, the
// Skill tool with its skills. A tool with the name of an earlier one replaces
// it. A provider logs its own trouble, gives what it can, and is quick about it.
type Provider interface {
	Tools(ctx context.Context, s Scope) []Tool
}

// Outliner is a Provider that can list its tools at a lower cost: without what is
// written for the model, which may depend on the files of the session.
type Outliner interface {
	Outline(ctx context.Context, s Scope) []Tool
}

// Noter is a Provider that reports which tools a session is not offered and why, after Tools.
type Noter interface {
	Notes(s Scope) []string
}

// Notes returns what the providers report of the tools of a session.
func (r *Registry) Notes(s Scope) []string {
	var notes []string

	for _, provider := range r.providers {
		if noter, ok := provider.(Noter); ok {
			notes = append(notes, noter.Notes(s)...)
		}
	}

	return notes
}

// Provide adds a provider. It is called before chats run.
func (r *Registry) Provide(p Provider) { r.providers = append(r.providers, p) }

// Prepare makes a provided tool ready to check arguments, once for all sessions
// that get it.
func Prepare(tool Tool) (Tool, error) {
	schema, err := compileSchema(tool.Spec.Parameters)
	tool.schema = schema

	return tool, err
}

// Toolset is what one loop can call, in the order it is offered.
type Toolset struct {
	registry *Registry
	scope    Scope
	tools    []*Tool
	byName   map[string]*Tool
}

// For gives the tools of a loop. One that is withheld from it is known and not
// offered, so that a refusal can say why.
func (r *Registry) For(ctx context.Context, s Scope) *Toolset {
	return r.collect(s, func(p Provider) []Tool { return p.Tools(ctx, s) })
}

// Names lists the tools that For would offer, for showing them.
func (r *Registry) Names(ctx context.Context, s Scope) []string {
	return r.collect(s, func(p Provider) []Tool {
		if outliner, ok := p.(Outliner); ok {
			return outliner.Outline(ctx, s)
		}

		return p.Tools(ctx, s)
	}).names()
}

// collect puts what providers give behind the tools that there always are.
func (r *Registry) collect(s Scope, give func(Provider) []Tool) *Toolset {
	set := &Toolset{registry: r, scope: s, tools: slices.Clone(r.tools), byName: make(map[string]*Tool, len(r.byName))}
	for _, tool := range set.tools {
		set.byName[tool.Name] = tool
	}

	for _, provider := range r.providers {
		for _, tool := range give(provider) {
			set.put(tool)
		}
	}

	return set
}

func (t *Toolset) put(tool Tool) {
	if tool.schema == nil {
		prepared, err := Prepare(tool)
		if err != nil {
			return // a provider that gives a tool without a schema gives none
		}

		tool = prepared
	}

	if known, replaced := t.byName[tool.Name]; replaced {
		t.tools[slices.Index(t.tools, known)] = &tool
	} else {
		t.tools = append(t.tools, &tool)
	}

	t.byName[tool.Name] = &tool
}

// Offered lists what the model may call; planning offers nothing that acts,
// headless chats cannot ask (docs/modes.md).
func (t *Toolset) Offered() []domain.ToolSpec {
	var specs []domain.ToolSpec

	for _, tool := range t.tools {
		if tool.withheld(t.scope) == "" {
			specs = append(specs, tool.Spec)
		}
	}

	return specs
}

// Lookup finds a tool by its name, offered or not.
func (t *Toolset) Lookup(name string) (Tool, bool) {
	tool, ok := t.byName[name]
	if !ok {
		return Tool{}, false
	}

	return *tool, true
}

// DisplayName returns how clients show a tool; an unknown one is shown by its name.
func (t *Toolset) DisplayName(name string) string {
	if tool, ok := t.byName[name]; ok {
		return tool.DisplayName
	}

	return name
}

// Admit checks a call before anything is done for it: the tool exists and is
// offered, and its arguments fit. A refusal is the result that the model gets.
func (t *Toolset) Admit(name, arguments string) (Tool, json.RawMessage, *Result) {
	tool, ok := t.byName[name]
	if !ok {
		return Tool{}, nil, Failed("There is no tool named %s. The tools are: %s.", Quote(name), strings.Join(t.names(), ", "))
	}

	if reason := tool.withheld(t.scope); reason != "" {
		return Tool{}, nil, Failed("%s cannot be used here: %s.", tool.Name, reason)
	}

	checked, problem := tool.schema.check(arguments)
	if problem != "" {
		return Tool{}, nil, Failed("The arguments of %s are not valid, so nothing was done: %s", tool.Name, problem)
	}

	if tool.Check != nil {
		if problem := tool.Check(checked); problem != "" {
			return Tool{}, nil, Failed("%s was not carried out: %s", tool.Name, Sentence(problem))
		}
	}

	return *tool, checked, nil
}

// RunSummary returns what operators read of a call in the durable engine, in one line of at
// most 80 characters: "Bash: Run the tests". The values, and what looks like a secret,
// are masked before it is cut.
func (t *Toolset) RunSummary(name, arguments string, values []string) string {
	head := OneLine(Clean(name))

	about := t.RunText(name, arguments)
	if about == "" {
		return Cut(head, maxRunSummary)
	}

	return Cut(head+": "+Redact(OneLine(Clean(maskValues(about, values)))), maxRunSummary)
}

// RunText returns what a RunSummary holds of a call's arguments, unmasked; mostly nothing.
func (t *Toolset) RunText(name, arguments string) string {
	tool, ok := t.byName[name]
	if !ok || tool.RunSummary == nil {
		return ""
	}

	return tool.RunSummary(json.RawMessage(arguments))
}

// About returns the whole call, for a user who decides about it.
func (t *Toolset) About(name string, arguments json.RawMessage) string {
	return permission.Show(t.DisplayName(name), arguments)
}

// Summary says in one line what a call is about, for the user: "Bash: go test ./…".
// What looks like a secret in it is masked.
func (t *Toolset) Summary(name, arguments string) string {
	head := OneLine(Clean(name))

	tool, ok := t.byName[name]
	if !ok || tool.Summary == nil {
		return Cut(head, maxSummary)
	}

	if about := Redact(OneLine(Clean(tool.Summary(json.RawMessage(arguments))))); about != "" {
		head += ": " + about
	}

	return Cut(head, maxSummary)
}

func (t *Toolset) names() []string {
	names := []string{}
	for _, spec := range t.Offered() {
		names = append(names, spec.Name)
	}

	return names
}

// withheld returns why the tool is not offered; empty when it is.
func (t *Tool) withheld(s Scope) string {
	switch {
	case slices.Contains(s.Session.DisableTools, t.Name), slices.Contains(s.Profile.DisableTools, t.Name):
		return "it is disabled for this session"
	case s.Only != nil && !slices.Contains(s.Only, t.Name):
		return "this sub-agent does not have it"
	case t.Asks && s.Headless && (t.Name != AskUserQuestion || !s.Session.Setup.SkipConfirmations):
		return "no user is there to answer, the chat is headless"
	case s.Mode == domain.ModePlanning && !t.Planning:
		return "only looking at files, asking and planning are allowed while a plan is made"
	case s.Mode != domain.ModePlanning && !t.Executing:
		return "it belongs to planning mode"
	case t.Withhold != nil:
		return t.Withhold(s)
	default:
		return ""
	}
}
