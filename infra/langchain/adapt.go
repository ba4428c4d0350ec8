package langchain

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"time"

	framework "github.com/tmc/langchaingo/tools"

	"everloop/activities/tools"
	"everloop/domain"
)

// Options of one adapted tool.
type Options struct {
	Name        string // empty: made of the tool's own
	Description string // empty: the tool's own
	// Acts reports that a call may change something, so that it is carried out at
	// most once. Tools that only look are tried again.
	Acts bool
	// Check refuses an input before the tool sees it; nil: none is.
	Check   func(input string) (problem string)
	Timeout time.Duration // 0: DefaultTimeout
}

// DefaultTimeout bounds one call.
const DefaultTimeout = 45 * time.Second

const maxInput = 10_000

// The framework's tools take one text.
const parameters = `{
  "type": "object",
  "properties": {
    "input": {"type": "string", "minLength": 1, "maxLength": 10000, "description": "What the tool works on, as its description says"}
  },
  "required": ["input"],
  "additionalProperties": false
}`

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// Adapt makes a tool of the agent of one of the framework's.
func Adapt(tool framework.Tool, o Options) tools.Tool {
	display := o.Name
	if display == "" {
		display = tool.Name()
	}
	// Model servers take no other characters, and no more than 64.
	name := strings.Trim(notInNames.ReplaceAllString(display, "_"), "_")

	name = name[:min(len(name), 64)]
	if name == "" {
		name = "Tool"
	}

	if o.Description == "" {
		o.Description = strings.TrimSpace(tool.Description())
	}

	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}

	a := adapter{tool, name, o}

	return tools.Tool{
		Name: name, DisplayName: display,
		Spec:      domain.ToolSpec{Name: name, Description: o.Description, Parameters: json.RawMessage(parameters)},
		Acts:      o.Acts,
		Executing: true,
		Run:       a.run,
		Check:     a.check,
		Summary:   func(arguments json.RawMessage) string { return input(arguments) },
	}
}

type adapter struct {
	tool    framework.Tool
	name    string
	options Options
}

func input(arguments json.RawMessage) string {
	var in struct {
		Input string `json:"input"`
	}

	_ = json.Unmarshal(arguments, &in) // the schema was checked

	return in.Input[:min(len(in.Input), 4*maxInput)]
}

func (a adapter) check(arguments json.RawMessage) string {
	text := input(arguments)
	switch {
	case strings.TrimSpace(text) == "":
		return "input is empty"
	case a.options.Check != nil:
		return a.options.Check(text)
	default:
		return ""
	}
}

func (a adapter) run(ctx context.Context, c *tools.Call) (tools.Result, error) {
	limited, cancel := context.WithTimeout(ctx, a.options.Timeout)
	defer cancel()

	text, err := run(limited, a.tool, input(c.Arguments))
	switch {
	case ctx.Err() != nil:
		return tools.Result{}, context.Cause(ctx)
	case err != nil:
		return tools.Result{Output: a.name + " failed: " + a.words(limited, err), IsError: true}, nil
	case strings.TrimSpace(text) == "":
		return tools.Result{Output: "(No output.)"}, nil
	}
	// The framework's tools report their own faults as results.
	return tools.Result{Output: text, IsError: strings.HasPrefix(text, "error from evaluator")}, nil
}

// words returns why a call failed. Refusals of the guard come as domain errors
// inside those of the HTTP client; other words may hold addresses.
func (a adapter) words(ctx context.Context, err error) string {
	if known, ok := errors.AsType[*domain.Error](err); ok && known.Kind != domain.Internal {
		return known.Message + "."
	}

	if ctx.Err() != nil {
		return "it took longer than " + a.options.Timeout.String() + "."
	}

	return "the service that it asks cannot be reached, or answered in a way that was not understood."
}
