package account

import (
	"context"
	"log/slog"

	"github.com/gofiber/fiber/v2"

	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/api/sessiondetail"
	"everloop/auth"
	"everloop/domain"
	"everloop/service/accounts"
)

type userList struct {
	Items []domain.User `json:"items" doc:"The entries of this page."`
}

type newUser struct {
	User   domain.User `json:"user" doc:"The user."`
	APIKey newKey      `json:"api_key" doc:"The user's first key."`
}

// UsersAPI manages users.
type UsersAPI struct {
	Store   *accounts.Store
	Rights  *auth.Changes
	Workers sessiondetail.MCPWorkers
	Logger  *slog.Logger
}

// Register adds the operations of the area to the interface.
func (a *UsersAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "list-users", Method: fiber.MethodGet, Path: "/api/admin/users", Tag: "Administration",
		Summary: "List the users",
		Scope:   auth.Admin,
	}, func(ctx context.Context, _ *struct{}) (*httpx.Body[userList], error) {
		users, err := a.Store.Users(ctx)
		return httpx.Answer(userList{fields.OrEmpty(users)}, err)
	})
	httpx.Register(r, httpx.Operation{
		ID: "create-user", Method: fiber.MethodPost, Path: "/api/admin/users", Tag: "Administration",
		Summary:     "Create a user with an initial API key",
		Description: "Only this response returns the API key. It has the scopes of the key that the caller uses.",
		Scope:       auth.Admin, Audit: "user.create", Status: fiber.StatusCreated, Secret: true,
		Errors:  httpx.Codes{409: "username_taken"},
		Example: `{"username": "eve", "name": "Eve", "email": "eve@example.org"}`,
	}, a.createUser)
	httpx.Register(r, httpx.Operation{
		ID:      "delete-user",
		Method:  fiber.MethodDelete,
		Path:    "/api/admin/users/{user_id}",
		Tag:     "Administration",
		Summary: "Deactivate a user and revoke all API keys",
		Description: "The account is deactivated but kept for references. Its chats, queued messages, background tasks and " +
			"runs are stopped.",
		Scope:  auth.Admin,
		Audit:  "user.delete",
		Errors: httpx.Codes{404: "user_not_found", 409: "last_administrator"},
	}, a.deleteUser)
}

func (a *UsersAPI) createUser(ctx context.Context, in *struct {
	Body struct {
		Username      string  `json:"username" minLength:"1" maxLength:"128" pattern:"^[^\\s\\x00-\\x1f/]+$" patternDescription:"free of spaces, slashes and control characters" doc:"The user name." example:"eve"`
		Name          *string `json:"name,omitempty" nullable:"true" maxLength:"256" doc:"Its name." example:"Eve"`
		Email         *string `json:"email,omitempty" nullable:"true" maxLength:"320" doc:"The e-mail address." example:"eve@example.org"`
		AvatarURL     *string `json:"avatar_url,omitempty" nullable:"true" maxLength:"2000" pattern:"^https?://[^\\s\\x00-\\x1f]+$" patternDescription:"an http or https URL" doc:"The user's picture, for front ends." example:"https://people.example.org/eve.png"`
		Administrator *bool   `json:"administrator,omitempty" nullable:"true" doc:"Whether the user may administer the service."`
	}
},
) (*httpx.Body[newUser], error) {
	user := domain.User{
		ID: domain.NewID(), Username: in.Body.Username, Name: fields.Value(in.Body.Name), Email: fields.Value(in.Body.Email),
		AvatarURL: in.Body.AvatarURL, Administrator: fields.Value(in.Body.Administrator),
	}
	key, plaintext, hash := auth.NewKey(user.ID, "first key")
	key.Scopes = httpx.CallerOf(ctx).Scopes // a restricted key cannot make one that may do more

	user, key, err := a.Store.CreateUser(ctx, user, key, hash[:])
	if err != nil {
		return nil, err
	}

	httpx.Concerns(ctx, user.ID, map[string]string{"username": user.Username})

	return httpx.Answer(newUser{user, newKeyBody(key, plaintext)}, nil)
}

func (a *UsersAPI) deleteUser(ctx context.Context, in *struct {
	UserID string `path:"user_id" doc:"The user." example:"01a1fd9a-e0d1-7c52-b4f3-7a1d0c9e8b21"`
},
) (*httpx.Body[fields.OkBody], error) {
	if err := a.Store.DeleteUser(ctx, in.UserID); err != nil {
		return nil, err
	}

	a.Rights.Announce(ctx, domain.RightsChange{UserID: in.UserID})

	if err := a.Workers.UserDeleted(ctx, in.UserID); err != nil {
		a.Logger.Warn("failed to notify workers of a deleted user; unused tool servers end by themselves", "error", err)
	}

	return httpx.Answer(fields.OkBody{OK: true}, nil)
}
