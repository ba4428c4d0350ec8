package agents

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"everloop/activities/tools"
	"everloop/domain"
)

// GeneralPurpose names the type of sub-agents that a call gets when it names
// none.
const GeneralPurpose = "general-purpose"

var builtInAgents = []domain.AgentType{
	{
		Name:        GeneralPurpose,
		Description: "for any task of several steps; it has the same tools as you",
	},
	{
		Name:        "explorer",
		Description: "finds and reads, changes nothing: for questions about files and the web whose answer takes many looks",
		Prompt: "You only look: you have no tool that changes anything. Answer with what you found and where: paths with line " +
			"numbers, addresses. Say what you could not find.",
		Tools: []string{"Read", "Glob", "Grep", "WebFetch", "WebSearch"},
	},
}

// Agents provides the Agent tool with the types of sub-agents that a session
// has: the built-in ones, those of its profile, which may replace them, and
// those of files in its workspace, which may not.
type Agents struct {
	workspaces tools.Workspaces
	tool       tools.Tool

	mu    sync.Mutex
	files map[domain.SessionID]agentFiles // by session
}

// agentFiles are the types that a workspace held a moment ago.
type agentFiles struct {
	read     time.Time
	types    []domain.AgentType
	problems []string
}

// What is read of a workspace is believed for so long, and kept for so many
// sessions.
const (
	agentFilesFor  = 2 * time.Second
	agentFilesKept = 1000
)

// NewAgents returns a new provider. Background may be nil: then nothing is started
// in the background.
func NewAgents(d tools.Deps) (*Agents, error) {
	tool, err := tools.Prepare(NewAgent(d))
	return &Agents{workspaces: d.Workspaces, tool: tool, files: map[domain.SessionID]agentFiles{}}, err
}

// Tools implements Provider.
func (a *Agents) Tools(ctx context.Context, s tools.Scope) []tools.Tool {
	if a.withholds(s) {
		return nil
	}

	types, problems := a.Types(ctx, s)
	tool := a.tool
	tool.Spec.Description = agentDescription + listed(types, problems)

	return []tools.Tool{tool}
}

// Outline implements Outliner.
func (a *Agents) Outline(_ context.Context, s tools.Scope) []tools.Tool {
	if a.withholds(s) {
		return nil
	}

	return []tools.Tool{a.tool}
}

// withholds reports that a loop gets no Agent tool of this provider.
func (a *Agents) withholds(s tools.Scope) bool {
	return s.Mode == domain.ModePlanning || s.Only != nil && !slices.Contains(s.Only, Agent)
}

// Type finds a type by its name; the refusal says which ones there are.
func (a *Agents) Type(ctx context.Context, s tools.Scope, name string) (domain.AgentType, *tools.Result) {
	types, problems := a.Types(ctx, s)
	if i := slices.IndexFunc(types, func(t domain.AgentType) bool { return t.Name == name }); i >= 0 {
		return types[i], nil
	}

	names := make([]string, len(types))
	for i, t := range types {
		names[i] = t.Name
	}

	words := fmt.Sprintf("There is no type of sub-agent named %s. The types are: %s.", tools.Quote(name), strings.Join(names, ", "))
	if len(problems) > 0 {
		words += " Files that cannot be used: " + strings.Join(problems, "; ") + "."
	}

	return domain.AgentType{}, &tools.Result{Output: words, IsError: true}
}

// Types gives the types of a session in a stable order, and what is wrong with
// the files that give none.
func (a *Agents) Types(ctx context.Context, s tools.Scope) (types []domain.AgentType, problems []string) {
	types = slices.Clone(builtInAgents)
	for _, given := range s.Profile.Agents {
		if i := slices.IndexFunc(types, func(t domain.AgentType) bool { return t.Name == given.Name }); i >= 0 {
			types[i] = given
		} else {
			types = append(types, given)
		}
	}

	files := a.inWorkspace(ctx, s.Session)

	problems = slices.Clone(files.problems)
	for _, found := range files.types {
		if slices.ContainsFunc(types, func(t domain.AgentType) bool { return t.Name == found.Name }) {
			problems = append(problems, fmt.Sprintf("the name %s is taken", tools.Quote(found.Name)))
			continue
		}

		types = append(types, found)
	}

	return types, problems
}

func (a *Agents) inWorkspace(ctx context.Context, session domain.Session) agentFiles {
	a.mu.Lock()
	known, ok := a.files[session.ID]
	a.mu.Unlock()

	if ok && time.Since(known.read) < agentFilesFor {
		return known
	}

	found := readAgentFiles(ctx, a.workspaces, tools.SessionView{ID: session.ID, SandboxUID: session.SandboxUID})
	if ctx.Err() != nil {
		return found // perhaps not all of it
	}

	a.mu.Lock()
	defer a.mu.Unlock()

	if len(a.files) >= agentFilesKept {
		clear(a.files)
	}

	a.files[session.ID] = found

	return found
}

// listed returns the list of types for the model, with the files that are not valid.
func listed(types []domain.AgentType, problems []string) string {
	var text strings.Builder
	text.WriteString("\n\nTypes of sub-agents:\n")

	for _, t := range types {
		fmt.Fprintf(&text, "- %s: %s", t.Name, tools.Cut(tools.OneLine(tools.Clean(t.Description)), 500))

		if t.Tools != nil {
			fmt.Fprintf(&text, " (tools: %s)", strings.Join(t.Tools, ", "))
		}

		text.WriteByte('\n')
	}

	for _, problem := range problems {
		fmt.Fprintf(&text, "- (not usable: %s)\n", problem)
	}

	return text.String()
}
