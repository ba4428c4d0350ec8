package domain

import "time"

// User is a person or a service with an account.
type User struct {
	ID            string    `db:"id" json:"id"`
	Username      string    `db:"username" json:"username"`
	Name          string    `db:"name" json:"name"`
	Email         string    `db:"email" json:"email"`
	AvatarURL     *string   `db:"avatar_url" json:"avatar_url"`
	Administrator bool      `db:"administrator" json:"administrator"`
	CreatedAt     time.Time `db:"created_at" json:"created_at"`
}

// APIKey is the public form of a key: the secret itself is kept as a hash only.
type APIKey struct {
	ID         string     `db:"id"`
	UserID     string     `db:"user_id"`
	Name       string     `db:"name"`
	Masked     string     `db:"masked"`
	Scopes     []string   `db:"scopes"`
	ExpiresAt  *time.Time `db:"expires_at"`
	CreatedAt  time.Time  `db:"created_at"`
	LastUsedAt *time.Time `db:"last_used_at"`
}

// Caller is who makes a request, as the authentication package found.
type Caller struct {
	User   User
	KeyID  string   // the API key used; empty for other credentials
	Scopes []string // empty: everything that the user may do
}
