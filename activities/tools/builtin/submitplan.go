package builtin

import (
	"context"
	_ "embed"
	"encoding/json"
	"slices"

	"everloop/activities/tools"
	"everloop/domain"
)

//go:embed submitplan.md
var planDescription string

// Plan is the content of a block of type plan.
type Plan struct {
	Title string     `json:"title" jsonschema:"The goal" limits:"1..500"`
	Steps []PlanStep `json:"steps" limits:"1..200"`
}

// PlanStep is one step of a plan.
type PlanStep struct {
	ID        string   `json:"id" limits:"1..100"`
	Title     string   `json:"title" limits:"1..500"`
	Detail    string   `json:"detail" limits:"..20000"`
	DependsOn []string `json:"depends_on,omitempty" limits:"..200" each:"1..100"`
}

func newSubmitPlan() tools.Tool {
	return tools.Tool{
		Name: tools.SubmitPlan, DisplayName: "Plan",
		Spec:     domain.ToolSpec{Name: tools.SubmitPlan, Description: planDescription, Parameters: tools.Parameters[Plan]()},
		Planning: true,
		Check: func(arguments json.RawMessage) string {
			if _, err := ParsePlan(arguments); err != nil {
				return domain.AsError(err).Message
			}

			return ""
		},
		Run: func(context.Context, *tools.Call) (tools.Result, error) {
			return tools.Result{Output: "The plan is shown to the user."}, nil
		},
		Summary: tools.SummaryBy("title"),
	}
}

// ParsePlan reads a plan whose arguments the registry has admitted, and checks
// that its steps can be done in some order.
func ParsePlan(arguments json.RawMessage) (Plan, error) {
	var plan Plan
	if err := json.Unmarshal(arguments, &plan); err != nil {
		return Plan{}, invalidPlan("the plan is not valid JSON")
	}

	steps := map[string]PlanStep{}
	for _, step := range plan.Steps {
		if _, taken := steps[step.ID]; taken {
			return Plan{}, invalidPlan("two steps have the id %s", tools.Quote(step.ID))
		}

		steps[step.ID] = step
	}

	for _, step := range plan.Steps {
		for _, id := range step.DependsOn {
			if _, known := steps[id]; !known {
				return Plan{}, invalidPlan("step %s depends on %s, which is not a step of the plan", tools.Quote(step.ID), tools.Quote(id))
			}
		}
	}
	// Take away steps that depend on nothing left; what stays is a circle.
	left := slices.Clone(plan.Steps)
	for len(left) > 0 {
		n := len(left)

		left = slices.DeleteFunc(left, func(step PlanStep) bool {
			blocked := slices.ContainsFunc(step.DependsOn, func(id string) bool { _, open := steps[id]; return open })
			if !blocked {
				delete(steps, step.ID)
			}

			return !blocked
		})
		if len(left) == n {
			return Plan{}, invalidPlan("the steps from %s on depend on each other in a circle", tools.Quote(left[0].ID))
		}
	}

	return plan, nil
}

func invalidPlan(format string, args ...any) error {
	return domain.Newf(domain.Invalid, domain.CodeInvalidRequest, format, args...)
}
