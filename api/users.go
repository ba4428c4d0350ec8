package api

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
)

type userList struct {
	Items []domain.User `json:"items"`
}

type newUser struct {
	User   domain.User `json:"user"`
	APIKey newKey      `json:"api_key"`
}

type okBody struct {
	OK bool `json:"ok"`
}

func (s *server) userRoutes() {
	const path, tag = "/api/admin/users", "Administration"
	add(s, operation{
		id: "list-users", method: fiber.MethodGet, path: path, tag: tag, summary: "All users", scope: auth.Admin,
	}, func(ctx context.Context, _ *struct{}) (*body[userList], error) {
		users, err := s.Store.Users(ctx)
		return answer(userList{orEmpty(users)}, err)
	})
	add(s, operation{
		id: "create-user", method: fiber.MethodPost, path: path, tag: tag, summary: "Make a user and his first API key",
		scope: auth.Admin, status: fiber.StatusCreated, secret: true,
	}, s.createUser)
	add(s, operation{
		id: "delete-user", method: fiber.MethodDelete, path: path + "/{user_id}", tag: tag,
		summary: "Close a user's account and revoke his keys", scope: auth.Admin,
	}, s.deleteUser)
}

func (s *server) createUser(ctx context.Context, in *struct {
	Body struct {
		Username      string  `json:"username" minLength:"1" maxLength:"128" pattern:"^[^\\s\\x00-\\x1f/]+$" patternDescription:"free of spaces, slashes and control characters"`
		Name          *string `json:"name,omitempty" nullable:"true" maxLength:"256"`
		Email         *string `json:"email,omitempty" nullable:"true" maxLength:"320"`
		Administrator *bool   `json:"administrator,omitempty" nullable:"true"`
	}
},
) (*body[newUser], error) {
	user := domain.User{
		ID: domain.NewID(), Username: in.Body.Username, Name: value(in.Body.Name), Email: value(in.Body.Email),
		Administrator: value(in.Body.Administrator),
	}
	key, plaintext, hash := auth.NewKey(user.ID, "first key")
	user, key, err := s.Store.CreateUser(ctx, user, key, hash[:])
	if err != nil {
		return nil, err
	}
	s.audit(ctx, "user.create", user.ID, nil)
	return answer(newUser{user, newKeyBody(key, plaintext)}, nil)
}

func (s *server) deleteUser(ctx context.Context, in *struct {
	UserID string `path:"user_id"`
},
) (*body[okBody], error) {
	if err := s.Store.DeleteUser(ctx, in.UserID); err != nil {
		return nil, err
	}
	s.Auth.ForgetUser(in.UserID)
	if err := s.MCPWorkers.UserDeleted(ctx, in.UserID); err != nil {
		s.Logger.Warn("workers not told of a deleted user; unused tool servers end by themselves", "error", err)
	}
	s.audit(ctx, "user.delete", in.UserID, nil)
	return answer(okBody{true}, nil)
}

// value gives what an optional field holds, or its zero.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
