package app

// sharingSettings are about what leaves the installation without credentials.
type sharingSettings struct {
	PublicSharing bool `default:"true" negatable:"" env:"PUBLIC_SHARING" help:"Let owners make public, read-only links to their sessions."`
}
