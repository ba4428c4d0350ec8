package account

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/service/accounts"
)

// AdministrationAPI registers and audits who may administer the service.
type AdministrationAPI struct {
	Accounts    *accounts.Store
	TokenStates func(ctx context.Context, people []domain.ExternalUser) ([]domain.TokenState, error)
	Rights      *auth.Changes
}

// Register adds the operations of the area to the interface.
func (a *AdministrationAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "list-administrators", Method: fiber.MethodGet, Path: "/api/admin/admins", Tag: "Administration",
		Summary: "List the administrators",
		Scope:   auth.Admin,
	},
		func(ctx context.Context, _ *struct{}) (*httpx.Body[userList], error) {
			users, err := a.Accounts.Administrators(ctx)
			return httpx.Answer(userList{fields.OrEmpty(users)}, err)
		})
	httpx.Register(r, httpx.Operation{
		ID: "grant-administrator", Method: fiber.MethodPost, Path: "/api/admin/admins", Tag: "Administration",
		Summary: "Make a user an administrator",
		Scope:   auth.Admin, Audit: "admin.grant",
		Errors:  httpx.Codes{404: "user_not_found"},
		Example: `{"user_id": "01a1ff63-4512-7ae4-a128-e82fd2a774e5"}`,
	},
		func(ctx context.Context, in *struct {
			Body struct {
				UserID string `json:"user_id" minLength:"1" maxLength:"128" doc:"The user." example:"01a1ff63-4512-7ae4-a128-e82fd2a774e5"`
			}
		},
		) (*httpx.Body[fields.OkBody], error) {
			return a.setAdministrator(ctx, in.Body.UserID, true)
		})
	httpx.Register(r, httpx.Operation{
		ID: "revoke-administrator", Method: fiber.MethodDelete, Path: "/api/admin/admins/{user_id}", Tag: "Administration",
		Summary: "Revoke administrator rights",
		Scope:   auth.Admin, Audit: "admin.revoke",
		Errors: httpx.Codes{404: "user_not_found", 409: "last_administrator"},
	},
		func(ctx context.Context, in *struct {
			UserID string `path:"user_id" doc:"The user." example:"01a1fd9a-e0d1-7c52-b4f3-7a1d0c9e8b21"`
		},
		) (*httpx.Body[fields.OkBody], error) {
			return a.setAdministrator(ctx, in.UserID, false)
		})
	httpx.Register(r, httpx.Operation{
		ID: "list-audit", Method: fiber.MethodGet, Path: "/api/admin/audit", Tag: "Administration",
		Summary:     "List the audit trail, newest first",
		Description: "Records administrators' reads of other users' sessions, and their changes.",
		Scope:       auth.Admin,
	}, a.listAudit)
	httpx.Register(r, httpx.Operation{
		ID: "check-token-state", Method: fiber.MethodPost, Path: "/api/admin/users/token-state", Tag: "Administration",
		Summary:     "Check whether users of another system can sign in",
		Description: "Returns for each person whether an account is found by sub or email, or would be created.",
		Scope:       auth.Admin,
		Example:     `{"users": [{"sub": "01a1ff63-4512-7ae4-a128-e82fd2a774e5", "email": "eve@example.org", "name": "Eve"}]}`,
	}, a.tokenStates)
}

func (a *AdministrationAPI) setAdministrator(ctx context.Context, userID string, administrator bool) (*httpx.Body[fields.OkBody], error) {
	if err := a.Accounts.SetAdministrator(ctx, userID, administrator); err != nil {
		return nil, err
	}

	a.Rights.Announce(ctx, domain.RightsChange{UserID: userID})
	httpx.Concerns(ctx, userID, nil)

	return httpx.Answer(fields.OkBody{OK: true}, nil)
}

type auditPage struct {
	Items []domain.AuditRecord `json:"items" nullable:"false" doc:"The entries of this page."`
	Total int                  `json:"total" doc:"Total number of entries." example:"4"`
}

func (a *AdministrationAPI) listAudit(ctx context.Context, in *struct {
	ActorID string `query:"actor_id" maxLength:"128" doc:"Only actions of this user." example:"01a1fd9a-e0d1-7c52-b4f3-7a1d0c9e8b21"`
	Action  string `query:"action" maxLength:"128" doc:"Only records of this action." example:"session.read"`
	Target  string `query:"target" maxLength:"256" doc:"Only records with this target." example:"01a1fd9b-4f0b-74a3-bdbc-594f816ae116"`
	Limit   int    `query:"limit" default:"50" minimum:"1" maximum:"1000" doc:"Maximum number of entries." example:"20"`
	Offset  int    `query:"offset" default:"0" minimum:"0" doc:"Number of entries to skip." example:"0"`
},
) (*httpx.Body[auditPage], error) {
	page, total, err := a.Accounts.AuditTrail(ctx, domain.AuditQuery{
		ActorID: in.ActorID, Action: in.Action, Target: in.Target, Limit: in.Limit, Offset: in.Offset,
	})

	return httpx.Answer(auditPage{fields.OrEmpty(page), total}, err)
}

// person is a user as another system knows them.
type person struct {
	Email string `json:"email" maxLength:"320" doc:"The e-mail address." example:"eve@example.org"`
	Name  string `json:"name" maxLength:"256" doc:"Its name." example:"Eve"`
	Sub   string `json:"sub" minLength:"1" maxLength:"256" doc:"The person's id in the other system." example:"01a1ff63-4512-7ae4-a128-e82fd2a774e5"`
}

type tokenStateList struct {
	Items []domain.TokenState `json:"items" nullable:"false" doc:"The entries of this page."`
}

func (a *AdministrationAPI) tokenStates(ctx context.Context, in *struct {
	Body struct {
		Users []person `json:"users" nullable:"false" maxItems:"1000" doc:"The persons."`
	}
},
) (*httpx.Body[tokenStateList], error) {
	people := make([]domain.ExternalUser, len(in.Body.Users))
	for i, u := range in.Body.Users {
		people[i] = domain.ExternalUser{Sub: domain.CleanText(u.Sub), Email: domain.CleanText(u.Email), Name: u.Name}
	}

	states, err := a.TokenStates(ctx, people)

	return httpx.Answer(tokenStateList{fields.OrEmpty(states)}, err)
}
