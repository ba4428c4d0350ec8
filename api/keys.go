package api

import (
	"context"
	"time"

	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
)

// apiKey is the public form of an API key.
type apiKey struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Masked     string     `json:"masked" doc:"The first 6 and last 4 characters."`
	Plaintext  *string    `json:"plaintext" doc:"The key itself, in the answer that made it and never again."`
	Scopes     []string   `json:"scopes" doc:"What the key is restricted to; empty: nothing."`
	ExpiresAt  *time.Time `json:"expires_at"`
	CreatedAt  time.Time  `json:"created_at"`
	LastUsedAt *time.Time `json:"last_used_at"`
}

func keyBody(k domain.APIKey) apiKey {
	return apiKey{
		ID: k.ID, Name: k.Name, Masked: k.Masked, Scopes: orEmpty(k.Scopes), ExpiresAt: k.ExpiresAt,
		CreatedAt: k.CreatedAt, LastUsedAt: k.LastUsedAt,
	}
}

// newKey is the one answer that tells a key.
type newKey struct {
	Key       apiKey `json:"key"`
	Plaintext string `json:"plaintext"`
}

func newKeyBody(k domain.APIKey, plaintext string) newKey {
	out := newKey{keyBody(k), plaintext}
	out.Key.Plaintext = &plaintext
	return out
}

// KeyRef is the path of an operation on one API key.
type KeyRef struct {
	ID string `path:"id"`
}

type keyName struct {
	Name string `json:"name" minLength:"1" maxLength:"50"`
}

func (s *server) keyRoutes() {
	const path, tag = "/api/user/api-keys/", "API keys"
	add(s, operation{
		id: "create-api-key", method: fiber.MethodPost, path: path, tag: tag, summary: "Make an API key",
		scope: auth.Unrestricted, status: fiber.StatusCreated, secret: true,
	}, s.createKey)
	add(s, operation{
		id: "list-api-keys", method: fiber.MethodGet, path: path, tag: tag, summary: "The caller's API keys", scope: auth.Unrestricted,
	}, s.listKeys)
	add(s, operation{
		id: "get-api-key", method: fiber.MethodGet, path: path + "{id}", tag: tag, summary: "One API key", scope: auth.Unrestricted,
	}, func(ctx context.Context, in *KeyRef) (*body[apiKey], error) {
		key, err := s.Store.Key(ctx, callerOf(ctx).User.ID, in.ID)
		return answer(keyBody(key), err)
	})
	add(s, operation{
		id: "rename-api-key", method: fiber.MethodPatch, path: path + "{id}", tag: tag, summary: "Rename an API key", scope: auth.Unrestricted,
	}, func(ctx context.Context, in *struct {
		KeyRef
		Body keyName
	},
	) (*body[apiKey], error) {
		key, err := s.Store.RenameKey(ctx, callerOf(ctx).User.ID, in.ID, in.Body.Name)
		return answer(keyBody(key), err)
	})
	add(s, operation{
		id: "delete-api-key", method: fiber.MethodDelete, path: path + "{id}", tag: tag, summary: "Revoke an API key", scope: auth.Unrestricted,
	}, s.deleteKey)
}

func (s *server) createKey(ctx context.Context, in *struct {
	Body struct {
		Name      string     `json:"name" minLength:"1" maxLength:"50"`
		Scopes    []string   `json:"scopes,omitempty" nullable:"true" maxItems:"20" enum:"sessions:read,sessions:write,chat,files,schedules,solutions,workspaces,skills,skills:write,admin"`
		ExpiresAt *time.Time `json:"expires_at,omitempty" nullable:"true"`
	}
},
) (*body[newKey], error) {
	if in.Body.ExpiresAt != nil && !in.Body.ExpiresAt.After(time.Now()) {
		return nil, domain.Invalidf("body.expires_at", "must be in the future")
	}
	key, plaintext, hash := auth.NewKey(callerOf(ctx).User.ID, in.Body.Name)
	key.Scopes, key.ExpiresAt = orEmpty(in.Body.Scopes), in.Body.ExpiresAt
	made, err := s.Store.CreateKey(ctx, key, hash[:])
	return answer(newKeyBody(made, plaintext), err)
}

func (s *server) listKeys(ctx context.Context, _ *struct{}) (*body[[]apiKey], error) {
	keys, err := s.Store.Keys(ctx, callerOf(ctx).User.ID)
	out := make([]apiKey, len(keys))
	for i, k := range keys {
		out[i] = keyBody(k)
	}
	return answer(out, err)
}

func (s *server) deleteKey(ctx context.Context, in *KeyRef) (*struct{}, error) {
	if err := s.Store.RevokeKey(ctx, callerOf(ctx).User.ID, in.ID); err != nil {
		return nil, err
	}
	s.Auth.ForgetKey(in.ID)
	return nil, nil
}
