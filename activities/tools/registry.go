package tools

import (
	"context"
	"fmt"

	"everloop/domain"
)

// Registry holds the tools of the service, in the order they are offered, and
// the providers of further ones. It does not change once chats run.
type Registry struct {
	workspaces Workspaces
	maxResult  int // characters
	tools      []*Tool
	byName     map[string]*Tool
	providers  []Provider
}

// NewRegistry returns a new registry without tools. Results of more than maxResult characters
// are kept as files of the workspace.
func NewRegistry(workspaces Workspaces, maxResult int) *Registry {
	return &Registry{workspaces: workspaces, maxResult: maxResult, byName: map[string]*Tool{}}
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
			result = *Failed("%s failed because of a fault of the service; it may have been carried out in part.", tool.Name)
			err = fmt.Errorf("tool %s panicked: %v", tool.Name, p)
		}
	}()

	if tool.Run == nil {
		return *Failed("%s is not run by a worker.", tool.Name), fmt.Errorf("tool %s has nothing to run", tool.Name)
	}

	result, err = tool.Run(ctx, c)

	result.Output = Clean(result.Output)
	if c.MaskEnv {
		maskEnv(&result, c.Session.Env)
	}

	if Length(result.Output) > r.maxResult {
		result.Output = r.shorten(context.WithoutCancel(ctx), c, result.Output)
	}

	return result, err
}

// maskEnv replaces the values of an environment in what a call returned.
func maskEnv(result *Result, env map[string]string) {
	mask := domain.ValueMasker("***", env)
	result.Output = mask.Replace(result.Output)

	for i, c := range result.Connections {
		result.Connections[i].Host, result.Connections[i].Reason = mask.Replace(c.Host), mask.Replace(c.Reason)
	}
}
