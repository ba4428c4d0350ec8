package api

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
)

// Administration keeps who may administer the service and what was done with
// privileges.
type Administration interface {
	Administrators(ctx context.Context) ([]domain.User, error)
	// SetAdministrator gives or takes the right; the last one keeps it.
	SetAdministrator(ctx context.Context, userID string, administrator bool) error
	AuditTrail(ctx context.Context, q domain.AuditQuery) (page []domain.AuditRecord, total int, err error)
	TokenStates(ctx context.Context, people []domain.Person) ([]domain.TokenState, error)
}

func (s *server) administrationRoutes() {
	const path, tag = "/api/admin/admins", "Administration"
	op := func(id, method, path, summary string) operation {
		return operation{id: id, method: method, path: path, tag: tag, summary: summary, scope: auth.Admin}
	}
	add(s, op("list-administrators", fiber.MethodGet, path, "All administrators"),
		func(ctx context.Context, _ *struct{}) (*body[userList], error) {
			users, err := s.Administration.Administrators(ctx)
			return answer(userList{orEmpty(users)}, err)
		})
	add(s, op("grant-administrator", fiber.MethodPost, path, "Make a user an administrator"),
		func(ctx context.Context, in *struct {
			Body struct {
				UserID string `json:"user_id" minLength:"1" maxLength:"128"`
			}
		},
		) (*body[okBody], error) {
			return s.setAdministrator(ctx, in.Body.UserID, true)
		})
	add(s, op("revoke-administrator", fiber.MethodDelete, path+"/{user_id}", "Take an administrator's right back"),
		func(ctx context.Context, in *struct {
			UserID string `path:"user_id"`
		},
		) (*body[okBody], error) {
			return s.setAdministrator(ctx, in.UserID, false)
		})
	add(s, op("list-audit", fiber.MethodGet, "/api/admin/audit", "Who used which privilege, newest first"), s.listAudit)
	add(s, op("check-token-state", fiber.MethodPost, "/api/admin/users/token-state", "Whether people of another system can sign in here"), s.tokenStates)
}

func (s *server) setAdministrator(ctx context.Context, userID string, administrator bool) (*body[okBody], error) {
	if err := s.Administration.SetAdministrator(ctx, userID, administrator); err != nil {
		return nil, err
	}
	s.Auth.ForgetUser(userID)
	action := "admin.revoke"
	if administrator {
		action = "admin.grant"
	}
	s.audit(ctx, action, userID, nil)
	return answer(okBody{true}, nil)
}

// audit records what an administrator has done. That it cannot be recorded does
// not undo it.
func (s *server) audit(ctx context.Context, action, target string, details map[string]string) {
	if err := s.Store.Audit(ctx, callerOf(ctx).User.ID, action, target, details); err != nil {
		s.Logger.Warn("audit record not written", "action", action, "target", target, "error", err)
	}
}

type auditPage struct {
	Items []domain.AuditRecord `json:"items" nullable:"false"`
	Total int                  `json:"total"`
}

func (s *server) listAudit(ctx context.Context, in *struct {
	ActorID string `query:"actor_id" maxLength:"128"`
	Action  string `query:"action" maxLength:"128"`
	Target  string `query:"target" maxLength:"256"`
	Limit   int    `query:"limit" default:"50" minimum:"1" maximum:"1000"`
	Offset  int    `query:"offset" default:"0" minimum:"0"`
},
) (*body[auditPage], error) {
	page, total, err := s.Administration.AuditTrail(ctx, domain.AuditQuery{
		ActorID: in.ActorID, Action: in.Action, Target: in.Target, Limit: in.Limit, Offset: in.Offset,
	})
	return answer(auditPage{orEmpty(page), total}, err)
}

// person is somebody as another system knows him.
type person struct {
	Email string `json:"email" maxLength:"320"`
	Name  string `json:"name" maxLength:"256"`
	Sub   string `json:"sub" minLength:"1" maxLength:"256"`
}

type tokenStateList struct {
	Items []domain.TokenState `json:"items" nullable:"false"`
}

func (s *server) tokenStates(ctx context.Context, in *struct {
	Body struct {
		Users []person `json:"users" nullable:"false" maxItems:"1000"`
	}
},
) (*body[tokenStateList], error) {
	people := make([]domain.Person, len(in.Body.Users))
	for i, u := range in.Body.Users {
		people[i] = domain.Person{Sub: domain.CleanText(u.Sub), Email: domain.CleanText(u.Email), Name: u.Name}
	}
	states, err := s.Administration.TokenStates(ctx, people)
	return answer(tokenStateList{orEmpty(states)}, err)
}
