package tools

import (
	"context"
	"fmt"

	"everloop/domain"
)

// Deps is what the built-in tools work with.
type Deps struct {
	Workspaces Workspaces
	Sandbox    Sandbox
	Reads      FileReads
	Tasks      TaskList
	Background Background // nil: run_in_background is refused
	Web        Web        // nil: WebFetch is not offered
	Asker      Asker      // nil: the prompt of WebFetch is not applied
	Search     Searcher   // nil: WebSearch is not offered

	Network  domain.NetworkMode // of commands; empty: none
	Policies NetworkPolicies    // with NetworkRules; what RequestAccess reads

	Limits Limits
}

// Registry holds the tools of the service, in the order they are offered, and
// the providers of further ones. It does not change once chats run.
type Registry struct {
	workspaces Workspaces
	maxResult  int // characters
	tools      []*Tool
	byName     map[string]*Tool
	providers  []Provider
}

// New makes a registry of the built-in tools.
func New(d Deps) (*Registry, error) {
	d.Limits = d.Limits.orDefault()
	r := &Registry{workspaces: d.Workspaces, maxResult: d.Limits.Result, byName: map[string]*Tool{}}

	builtIn := []Tool{
		newBash(d), newRead(d), newWrite(d), newEdit(d), newGlob(d), newGrep(d),
		newAskUserQuestion(), newTaskCreate(d), newAgent(d), newSubmitPlan(),
	}
	if d.Network == domain.NetworkRules {
		builtIn = append(builtIn, newRequestAccess(d))
	}

	if d.Web != nil {
		builtIn = append(builtIn, newWebFetch(d))
	}

	if d.Search != nil {
		builtIn = append(builtIn, newWebSearch(d))
	}

	for _, tool := range builtIn {
		if err := r.Add(tool); err != nil {
			return nil, err
		}
	}

	return r, nil
}

// Add puts a further tool at the end of the list.
func (r *Registry) Add(tool Tool) error {
	if _, taken := r.byName[tool.Name]; taken {
		return fmt.Errorf("tool %s is defined twice", tool.Name)
	}

	schema, err := compileSchema(tool.Spec.Parameters)
	if err != nil {
		return fmt.Errorf("schema of tool %s: %w", tool.Name, err)
	}

	tool.schema = schema
	r.tools = append(r.tools, &tool)
	r.byName[tool.Name] = &tool

	return nil
}

// Run carries out an admitted call. What it returns fits the limits of every
// tool; a panic becomes an error.
func (r *Registry) Run(ctx context.Context, tool Tool, c *Call) (result Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			result = *failed("%s failed because of a fault of the service; it may have been carried out in part.", tool.Name)
			err = fmt.Errorf("tool %s panicked: %v", tool.Name, p)
		}
	}()

	if tool.Run == nil {
		return *failed("%s is not run by a worker.", tool.Name), fmt.Errorf("tool %s has nothing to run", tool.Name)
	}

	result, err = tool.Run(ctx, c)

	result.Output = clean(result.Output)
	if length(result.Output) > r.maxResult {
		result.Output = r.shorten(context.WithoutCancel(ctx), c, result.Output)
	}

	return result, err
}

// failed makes the result of a call that did not do what was asked.
func failed(format string, args ...any) *Result {
	return &Result{Output: fmt.Sprintf(format, args...), IsError: true}
}

// quote shows a word of the model's in a message, shortened.
func quote(word string) string { return fmt.Sprintf("%q", cut(clean(word), 100)) }
