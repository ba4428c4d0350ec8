package domain

// Identity is a person's identity in a token of the identity service.
type Identity struct {
	Issuer, Subject string // together they identify the person permanently

	Username, Name, Email string

	Administrator bool
	First         bool  // the administrator created at the first start of the identity service
	Version       int64 // grows with each change of the fields above
}

// IdentityAccount is the account of a person at the identity service.
type IdentityAccount struct {
	UserID        string `db:"id"`
	Subject       string `db:"subject"`
	Open          bool   `db:"open"`          // not disabled; deletions here are not followed
	Administrator bool   `db:"administrator"` // as last reported by the service
}
