package domain

import "time"

// User is a person or a service with an account.
type User struct {
	ID            string    `db:"id" json:"id" doc:"Its id." example:"01a1ff63-2da3-7551-9a1e-abad628e9c3d"`
	Username      string    `db:"username" json:"username" doc:"The user name." example:"admin"`
	Name          string    `db:"name" json:"name" doc:"Its name." example:"Administrator"`
	Email         string    `db:"email" json:"email" doc:"The e-mail address." example:"eve@example.org"`
	AvatarURL     *string   `db:"avatar_url" json:"avatar_url" doc:"The user's picture."`
	Administrator bool      `db:"administrator" json:"administrator" doc:"Whether the user may administer the service."`
	CreatedAt     time.Time `db:"created_at" json:"created_at" doc:"Creation time."`

	// The user's identity at the identity service; empty for other users. Only the
	// authentication of a caller sets them.
	Issuer  string `db:"-" json:"-"`
	Subject string `db:"-" json:"-"`
}

// APIKey is the public form of a key: the secret itself is stored only as a hash.
type APIKey struct {
	ID         string     `db:"id"`
	UserID     string     `db:"user_id"`
	Name       string     `db:"name"`
	Masked     string     `db:"masked"`
	Scopes     []string   `db:"scopes"`
	ExpiresAt  *time.Time `db:"expires_at"`
	CreatedAt  time.Time  `db:"created_at"`
	LastUsedAt *time.Time `db:"last_used_at"`
	LastUsedIP *string    `db:"last_used_ip"` // nil: never, or unknown
}

// KeyUse is one use of an API key.
type KeyUse struct {
	At time.Time
	IP string // empty: unknown
}

// Caller is the author of a request, as authenticated.
type Caller struct {
	User   User
	KeyID  string   // the API key used; empty for other credentials
	Grant  string   // the session or token of the identity service used; empty for keys
	Scopes []string // empty: all rights of the user

	ExpiresAt *time.Time // when the credential expires; nil: never
}

// ClosedSession is a session with unfinished work whose owner's account is closed.
type ClosedSession struct {
	ID      SessionID `db:"id"`
	OwnerID string    `db:"owner_id"`
}
