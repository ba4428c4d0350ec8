package account

import (
	"context"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/service/accounts"
)

// apiKey is the public form of an API key.
type apiKey struct {
	ID         string     `json:"id" doc:"Its id." example:"01a1ff63-4512-7af8-b808-614b312d289d"`
	Name       string     `json:"name" doc:"Its name." example:"first key"`
	Masked     string     `json:"masked" doc:"The first 6 and last 4 characters." example:"el_8z8...nEsg"`
	Plaintext  *string    `json:"plaintext" doc:"The key itself, in the answer that made it and never again." example:"el_0000000000000000000000000000"`
	Scopes     []string   `json:"scopes" doc:"What the key is restricted to; empty: nothing." example:"[\"sessions:read\", \"chat\"]"`
	ExpiresAt  *time.Time `json:"expires_at" doc:"Expiry time; null: never."`
	CreatedAt  time.Time  `json:"created_at" doc:"Creation time."`
	LastUsedAt *time.Time `json:"last_used_at" doc:"Time of the last use; null: never."`
	LastUsedIP *string    `json:"last_used_ip" nullable:"true" doc:"The client's address at that time; null: never, or not known." example:"192.0.2.7"`
}

func keyBody(k domain.APIKey) apiKey {
	return apiKey{
		ID: k.ID, Name: k.Name, Masked: k.Masked, Scopes: fields.OrEmpty(k.Scopes), ExpiresAt: k.ExpiresAt,
		CreatedAt: k.CreatedAt, LastUsedAt: k.LastUsedAt, LastUsedIP: k.LastUsedIP,
	}
}

// newKey is the one answer that shows a key.
type newKey struct {
	Key       apiKey `json:"key" doc:"The key without its plaintext."`
	Plaintext string `json:"plaintext" doc:"The key itself; only this response contains it." example:"el_0000000000000000000000000000"`
}

func newKeyBody(k domain.APIKey, plaintext string) newKey {
	out := newKey{keyBody(k), plaintext}
	out.Key.Plaintext = &plaintext

	return out
}

// KeyRef is the path of an operation on one API key.
type KeyRef struct {
	ID string `path:"id" doc:"The API key." example:"01a1fd9b-6159-7ab7-9ea9-e318ff1b1543"`
}

type keyName struct {
	Name string `json:"name" minLength:"1" maxLength:"50" doc:"Its name." example:"reader"`
}

// KeysAPI manages API keys.
type KeysAPI struct {
	Store  *accounts.Store
	Rights *auth.Changes
}

// Register adds the operations of the area to the interface.
func (a *KeysAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "create-api-key", Method: fiber.MethodPost, Path: "/api/user/api-keys/", Tag: "API keys",
		Summary:     "Create an API key",
		Description: "Only this response returns plaintext. A key without scopes has all of its user's permissions.",
		Scope:       auth.Unrestricted, Audit: "api_key.create", Status: fiber.StatusCreated, Secret: true,
		Example: `{"name": "ci", "scopes": ["sessions:read", "chat"]}`,
	}, a.createKey)
	httpx.Register(r, httpx.Operation{
		ID: "list-api-keys", Method: fiber.MethodGet, Path: "/api/user/api-keys/", Tag: "API keys",
		Summary:     "List the caller's API keys",
		Description: "The keys themselves are not returned.",
		Scope:       auth.Unrestricted,
	}, a.listKeys)
	httpx.Register(r, httpx.Operation{
		ID: "get-api-key", Method: fiber.MethodGet, Path: "/api/user/api-keys/{id}", Tag: "API keys",
		Summary: "Get an API key",
		Scope:   auth.Unrestricted,
		Errors:  httpx.Codes{404: "api_key_not_found"},
	}, func(ctx context.Context, in *KeyRef) (*httpx.Body[apiKey], error) {
		key, err := a.Store.Key(ctx, httpx.CallerOf(ctx).User.ID, in.ID)
		return httpx.Answer(keyBody(key), err)
	})
	httpx.Register(r, httpx.Operation{
		ID: "rename-api-key", Method: fiber.MethodPatch, Path: "/api/user/api-keys/{id}", Tag: "API keys",
		Summary: "Rename an API key",
		Scope:   auth.Unrestricted,
		Errors:  httpx.Codes{404: "api_key_not_found"},
		Example: `{"name": "reader"}`,
	}, func(ctx context.Context, in *struct {
		KeyRef
		Body keyName
	},
	) (*httpx.Body[apiKey], error) {
		key, err := a.Store.RenameKey(ctx, httpx.CallerOf(ctx).User.ID, in.ID, in.Body.Name)
		return httpx.Answer(keyBody(key), err)
	})
	httpx.Register(r, httpx.Operation{
		ID: "delete-api-key", Method: fiber.MethodDelete, Path: "/api/user/api-keys/{id}", Tag: "API keys",
		Summary: "Revoke an API key",
		Description: "Takes effect at once, also for open streams and sockets, in every process; a process that misses the " +
			"announcement notices within 5 seconds, for open connections within 30.",
		Scope: auth.Unrestricted, Audit: "api_key.delete",
		Errors: httpx.Codes{404: "api_key_not_found"},
	}, a.deleteKey)
}

func (a *KeysAPI) createKey(ctx context.Context, in *struct {
	Body struct {
		Name      string     `json:"name" minLength:"1" maxLength:"50" doc:"Its name." example:"ci"`
		Scopes    []string   `json:"scopes,omitempty" nullable:"true" maxItems:"20" enum:"sessions:read,sessions:write,chat,files,schedules,triggers,solutions,workspaces,skills,skills:write,admin" doc:"The scopes that the key is restricted to; left out or empty: unrestricted."`
		ExpiresAt *time.Time `json:"expires_at,omitempty" nullable:"true" doc:"Expiry time; null: never."`
	}
},
) (*httpx.Body[newKey], error) {
	if in.Body.ExpiresAt != nil && !in.Body.ExpiresAt.After(time.Now()) {
		return nil, domain.Invalidf("body.expires_at", "must be in the future")
	}

	key, plaintext, hash := auth.NewKey(httpx.CallerOf(ctx).User.ID, in.Body.Name)
	key.Scopes, key.ExpiresAt = fields.OrEmpty(in.Body.Scopes), in.Body.ExpiresAt
	made, err := a.Store.CreateKey(ctx, key, hash[:])
	httpx.Concerns(ctx, made.ID, map[string]string{"name": made.Name, "scopes": strings.Join(made.Scopes, " ")})

	return httpx.Answer(newKeyBody(made, plaintext), err)
}

func (a *KeysAPI) listKeys(ctx context.Context, _ *struct{}) (*httpx.Body[[]apiKey], error) {
	keys, err := a.Store.Keys(ctx, httpx.CallerOf(ctx).User.ID)

	out := make([]apiKey, len(keys))
	for i, k := range keys {
		out[i] = keyBody(k)
	}

	return httpx.Answer(out, err)
}

func (a *KeysAPI) deleteKey(ctx context.Context, in *KeyRef) (*struct{}, error) {
	if err := a.Store.RevokeKey(ctx, httpx.CallerOf(ctx).User.ID, in.ID); err != nil {
		return nil, err
	}

	a.Rights.Announce(ctx, domain.RightsChange{KeyID: in.ID})

	return nil, nil
}
