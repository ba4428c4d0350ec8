package account

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"everloop/api/access"
	"everloop/api/httpx"
	"everloop/auth"
)

// budgetChange is the body of PATCH: what is left out stays, null lifts a bound.
type budgetChange struct {
	MaxTokens httpx.Nullable[int64]   `json:"max_tokens,omitempty" minimum:"1" maximum:"1000000000000" doc:"Input and output tokens of all chats of the session together; null: unbounded." example:"500000"`
	MaxCost   httpx.Nullable[float64] `json:"max_cost,omitempty" minimum:"0" maximum:"1000000000" doc:"Cost of all chats together by the models' prices; null: unbounded."`
}

type spentBudget struct {
	MaxTokens  *int64   `json:"max_tokens" doc:"null: unbounded" example:"500000"`
	MaxCost    *float64 `json:"max_cost" doc:"null: unbounded"`
	UsedTokens int64    `json:"used_tokens" doc:"Tokens used by all chats so far." example:"0"`
	UsedCost   float64  `json:"used_cost" doc:"Cost of all chats so far." example:"0"`
}

// BudgetsAPI limits what the chats of a session may use.
type BudgetsAPI struct {
	access.Sessions
}

// Register adds the operations of the area to the interface.
func (a *BudgetsAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "set-session-budget", Method: fiber.MethodPatch, Path: "/api/sessions/{session_id}/budget", Tag: "Sessions",
		Summary: "Set the budget of a session's chats",
		Description: "A field that is left out keeps its value; null removes the limit. A chat that reaches a limit ends with " +
			"budget_exhausted.",
		Scope:   auth.SessionsWrite,
		Example: `{"max_tokens": 500000, "max_cost": null}`,
	}, a.setBudget)
}

func (a *BudgetsAPI) setBudget(ctx context.Context, in *struct {
	access.SessionRef
	Body budgetChange
},
) (*httpx.Body[spentBudget], error) {
	user := httpx.CallerOf(ctx).User

	now, err := a.Store.SessionBudget(ctx, user, in.SessionID)
	if err != nil {
		return nil, err
	}

	if in.Body.MaxTokens.Present {
		now.MaxTokens = in.Body.MaxTokens.Value
	}

	if in.Body.MaxCost.Present {
		now.MaxCost = in.Body.MaxCost.Value
	}

	now, err = a.Store.SetSessionBudget(ctx, user, in.SessionID, now.Budget)

	return httpx.Answer(spentBudget{now.MaxTokens, now.MaxCost, now.UsedTokens, now.UsedCost.Amount()}, err)
}
