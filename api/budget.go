package api

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
)

// Budgets bound what the chats of a session may use. They are the caller's own
// sessions'.
type Budgets interface {
	SessionBudget(ctx context.Context, caller domain.User, id string) (domain.SpentBudget, error)
	SetSessionBudget(ctx context.Context, caller domain.User, id string, budget domain.Budget) (domain.SpentBudget, error)
}

// budgetChange is the body of PATCH: what is left out stays, null lifts a bound.
type budgetChange struct {
	MaxTokens nullable[int64]   `json:"max_tokens,omitempty" minimum:"1" maximum:"1000000000000" doc:"Input and output tokens of all chats of the session together; null: unbounded."`
	MaxCost   nullable[float64] `json:"max_cost,omitempty" minimum:"0" maximum:"1000000000" doc:"Cost of all chats together by the models' prices; null: unbounded."`
}

type spentBudget struct {
	MaxTokens  *int64   `json:"max_tokens" doc:"null: unbounded"`
	MaxCost    *float64 `json:"max_cost" doc:"null: unbounded"`
	UsedTokens int64    `json:"used_tokens"`
	UsedCost   float64  `json:"used_cost"`
}

func (s *server) budgetRoutes() {
	add(s, operation{
		id: "set-session-budget", method: fiber.MethodPatch, path: "/api/sessions/{session_id}/budget", tag: "Sessions",
		summary: "Bound what a session's chats may use", scope: auth.SessionsWrite,
	}, s.setBudget)
}

func (s *server) setBudget(ctx context.Context, in *struct {
	SessionRef
	Body budgetChange
},
) (*body[spentBudget], error) {
	user := callerOf(ctx).User
	now, err := s.Budgets.SessionBudget(ctx, user, in.SessionID)
	if err != nil {
		return nil, err
	}
	if in.Body.MaxTokens.present {
		now.MaxTokens = in.Body.MaxTokens.value
	}
	if in.Body.MaxCost.present {
		now.MaxCost = in.Body.MaxCost.value
	}
	now, err = s.Budgets.SetSessionBudget(ctx, user, in.SessionID, now.Budget)
	return answer(spentBudget{now.MaxTokens, now.MaxCost, now.UsedTokens, now.UsedCost}, err)
}
