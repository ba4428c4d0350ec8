package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"everloop/domain"
)

// Deps is what the built-in tools work with.
type Deps struct {
	Workspaces Workspaces
	Sandbox    Sandbox
	Reads      FileReads
	Tasks      TaskList
	Background Background // nil: run_in_background is refused
}

// Registry holds the tools of the service, in the order they are offered. It
// does not change once chats run.
type Registry struct {
	workspaces Workspaces
	tools      []*Tool
	byName     map[string]*Tool
}

// New makes a registry of the built-in tools.
func New(d Deps) (*Registry, error) {
	r := &Registry{workspaces: d.Workspaces, byName: map[string]*Tool{}}
	for _, tool := range []Tool{
		newBash(d), newRead(d), newWrite(d), newEdit(d), newGlob(d), newGrep(d),
		newAskUserQuestion(), newTaskCreate(d), newSubmitPlan(),
	} {
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

// Lookup finds a tool by its name.
func (r *Registry) Lookup(name string) (Tool, bool) {
	tool, ok := r.byName[name]
	if !ok {
		return Tool{}, false
	}
	return *tool, true
}

// DisplayName is how clients show a tool; an unknown one is shown by its name.
func (r *Registry) DisplayName(name string) string {
	if tool, ok := r.byName[name]; ok {
		return tool.DisplayName
	}
	return name
}

// Offered lists what a model may call in the mode; planning offers nothing that
// acts, headless chats cannot ask (decisions.md section 4).
func (r *Registry) Offered(mode domain.Mode, headless bool, disabled []string) []domain.ToolSpec {
	var specs []domain.ToolSpec
	for _, tool := range r.tools {
		if reason := tool.withheld(mode, headless, disabled); reason == "" {
			specs = append(specs, tool.Spec)
		}
	}
	return specs
}

// Admit checks a call before anything is done for it: the tool exists and is
// offered, and its arguments fit. A refusal is the result that the model gets.
func (r *Registry) Admit(mode domain.Mode, headless bool, disabled []string, name, arguments string) (Tool, json.RawMessage, *Result) {
	tool, ok := r.byName[name]
	if !ok {
		return Tool{}, nil, failed("There is no tool named %s. The tools are: %s.",
			quote(name), strings.Join(r.names(mode, headless, disabled), ", "))
	}
	if reason := tool.withheld(mode, headless, disabled); reason != "" {
		return Tool{}, nil, failed("%s cannot be used here: %s.", tool.Name, reason)
	}
	checked, problem := tool.schema.check(arguments)
	if problem != "" {
		return Tool{}, nil, failed("The arguments of %s are not valid, so nothing was done: %s", tool.Name, problem)
	}
	if tool.Check != nil {
		if problem := tool.Check(checked); problem != "" {
			return Tool{}, nil, failed("%s was not carried out: %s", tool.Name, sentence(problem))
		}
	}
	return *tool, checked, nil
}

// Run carries out an admitted call. What it gives back fits the limits of every
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
	if length(result.Output) > MaxResult {
		result.Output = r.shorten(context.WithoutCancel(ctx), c, result.Output)
	}
	return result, err
}

// withheld says why the tool is not offered; empty when it is.
func (t *Tool) withheld(mode domain.Mode, headless bool, disabled []string) string {
	switch {
	case slices.Contains(disabled, t.Name):
		return "it is disabled for this session"
	case t.Asks && headless:
		return "nobody is there to answer, the chat is headless"
	case mode == domain.ModePlanning && !t.Planning:
		return "only looking at files, asking and planning are allowed while a plan is made"
	case mode != domain.ModePlanning && !t.Executing:
		return "it belongs to planning mode"
	default:
		return ""
	}
}

func (r *Registry) names(mode domain.Mode, headless bool, disabled []string) []string {
	var names []string
	for _, spec := range r.Offered(mode, headless, disabled) {
		names = append(names, spec.Name)
	}
	return names
}

// failed makes the result of a call that did not do what was asked.
func failed(format string, args ...any) *Result {
	return &Result{Output: fmt.Sprintf(format, args...), IsError: true}
}

// quote shows a word of the model's in a message, shortened.
func quote(word string) string { return fmt.Sprintf("%q", cut(clean(word), 100)) }
