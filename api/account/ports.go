package account

import (
	"context"

	"everloop/domain"
)

// KeyStore is the records of API keys.
type KeyStore interface {
	CreateKey(ctx context.Context, key domain.APIKey, hash []byte) (domain.APIKey, error)
	Keys(ctx context.Context, userID string) ([]domain.APIKey, error)
	Key(ctx context.Context, userID, id string) (domain.APIKey, error)
	RenameKey(ctx context.Context, userID, id, name string) (domain.APIKey, error)
	RevokeKey(ctx context.Context, userID, id string) error
}

// UserStore is the records of users.
type UserStore interface {
	CreateUser(ctx context.Context, user domain.User, key domain.APIKey, hash []byte) (domain.User, domain.APIKey, error)
	Users(ctx context.Context) ([]domain.User, error)
	DeleteUser(ctx context.Context, id string) error
}
