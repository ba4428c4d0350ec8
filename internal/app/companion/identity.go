package companion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"everloop/companions/identity"
	"everloop/companions/identity/openid"
	"everloop/companions/identity/upstream"
	"everloop/infra/secrets"
	"everloop/internal/app/engine"
	"everloop/internal/app/flags"
	"everloop/internal/lifecycle"
)

// identityCompanion returns the identity service next to the agent.
func identityCompanion() companion {
	return companion{
		label: "Identity", variable: "IDENTITY_ADDR",
		address: func(s *Settings) string { return s.IdentityAddr },
		open: func(ctx context.Context, b *Beside, agent Agent, front net.Listener) (lifecycle.Service, error) {
			cfg, err := b.settings.identityConfig(agent, front)
			if err != nil {
				return nil, err
			}

			return openIdentity(ctx, cfg, agent.DataDir, front)
		},
	}
}

// identityConfig returns the configuration of the identity service next to the agent.
func (s *Settings) identityConfig(agent Agent, front net.Listener) (identity.Config, error) {
	box, err := agent.Keys.SecretBox(agent.DataDir, agent.EncryptionKey)
	if err != nil {
		return identity.Config{}, err
	}

	return s.identitySettings.config(front, agent.DataDir, identity.Config{
		DatabaseURL: agent.Database, AgentURL: s.agentURL(agent), Box: box,
		Proxies: agent.Proxies.Trusted(), Origins: agent.Origins, Hosts: agent.Hosts.Allowed(),
	})
}

// Constants of the identity service.
const (
	signInTTL   = 30 * 24 * time.Hour // how long a sign-in lasts, with its cookies
	keyRotation = 30 * 24 * time.Hour // age at which a signing key is replaced
	// userGuesses bounds the wrong passwords for one user name from one client address in a
	// minute; a person who mistypes needs fewer.
	userGuesses = 10
	// addressGuesses bounds those from one address: several people share one.
	addressGuesses = 60
)

// identitySettings are those of the identity service in every role that serves it.
type identitySettings struct {
	IdentityIssuer string        `env:"IDENTITY_ISSUER" help:"URL by which clients reach the identity service, which its tokens name; http:// with IDENTITY_ADDR when unset."`
	AdminPassword  string        `name:"identity-admin-password" env:"IDENTITY_ADMIN_PASSWORD" help:"Password of the first administrator, admin, at the first start; one is made and kept in DATA_DIR/identity-admin-password when unset."`
	TokenTTL       time.Duration `name:"token-ttl" default:"15m" env:"TOKEN_TTL" help:"Life of an access token, 10s to 24h."`
	DesktopURL     string        `name:"desktop-url" default:"http://127.0.0.1:8080" env:"DESKTOP_URL" help:"URL of the desktop front end, which signs people in as the OpenID client desktop with the redirect URI DESKTOP_URL/signin/callback; none: no such client."`
	OAuthConfig    string        `name:"oauth-config-yaml-path" env:"OAUTH_CONFIG_YAML_PATH" help:"YAML file of the identity service: other OpenID providers with which people may sign in, clients of its own provider, and whether administrators need a second factor."`
}

func (s identitySettings) check() error {
	var faults []error

	fault := func(broken bool, text string) {
		if broken {
			faults = append(faults, errors.New(text))
		}
	}
	fault(s.TokenTTL < 10*time.Second || s.TokenTTL > 24*time.Hour, "TOKEN_TTL must be 10s to 24h")
	_, err := s.signIn()
	_, desktop := s.openIDClients(nil)

	return errors.Join(append(faults, err, desktop)...)
}

// signIn reads the file of OAUTH_CONFIG_YAML_PATH; without one the zero value is returned.
func (s identitySettings) signIn() (upstream.Config, error) {
	if s.OAuthConfig == "" {
		return upstream.Config{}, nil
	}

	read, err := upstream.Load(s.OAuthConfig)
	if err == nil {
		_, err = s.openIDClients(read.Clients)
	}

	if err != nil {
		return upstream.Config{}, fmt.Errorf("OAUTH_CONFIG_YAML_PATH: %w", err)
	}

	return read, nil
}

// openIDClients returns the clients of the OpenID provider: the desktop of DESKTOP_URL,
// which alone gets codes without consent, and further ones.
func (s identitySettings) openIDClients(further []upstream.Client) ([]openid.Client, error) {
	var all []openid.Client

	if s.DesktopURL != "" && s.DesktopURL != "none" {
		desktop, err := openid.NewClient("desktop", strings.TrimRight(s.DesktopURL, "/")+"/signin/callback")
		if err != nil {
			return nil, fmt.Errorf("DESKTOP_URL: %w", err)
		}

		desktop.FirstParty = true
		all = append(all, desktop)
	}

	for _, c := range further {
		client, err := openid.NewClient(c.ID, c.RedirectURIs...)
		if err != nil {
			return nil, err
		}

		if slices.ContainsFunc(all, func(other openid.Client) bool { return other.ID == client.ID }) {
			return nil, fmt.Errorf("client %s is already defined", client.ID)
		}

		all = append(all, client)
	}

	return all, nil
}

// config completes the configuration of what the service shares with the agent.
func (s identitySettings) config(front net.Listener, dataDir string, cfg identity.Config) (identity.Config, error) {
	if err := s.check(); err != nil {
		return identity.Config{}, err
	}

	read, err := s.signIn()
	if err != nil {
		return identity.Config{}, err
	}

	cfg.Providers, cfg.AdminSecondFactor = read.Providers, read.AdminSecondFactor
	if cfg.Clients, err = s.openIDClients(read.Clients); err != nil {
		return identity.Config{}, err
	}

	cfg.Issuer = cmp.Or(strings.TrimRight(s.IdentityIssuer, "/"), "http://"+front.Addr().String())
	cfg.TokenTTL, cfg.SessionTTL, cfg.KeyRotation = s.TokenTTL, signInTTL, keyRotation
	cfg.UserGuesses, cfg.AddressGuesses = userGuesses, addressGuesses
	cfg.Log = slog.Default()
	cfg.FirstPassword = func() (string, error) {
		if s.AdminPassword != "" {
			return s.AdminPassword, nil
		}

		return secrets.KeyFile(PasswordFile(dataDir))
	}

	return cfg, nil
}

// PasswordFile keeps the password of the first administrator.
func PasswordFile(dataDir string) string { return filepath.Join(dataDir, "identity-admin-password") }

// openIdentity opens the service. The start that makes the first administrator says
// where the password is; a given one is never shown.
func openIdentity(ctx context.Context, cfg identity.Config, dataDir string, front net.Listener) (lifecycle.Service, error) {
	made := ""
	first := cfg.FirstPassword
	cfg.FirstPassword = func() (string, error) {
		password, err := first()
		made = password

		return password, err
	}

	opening, cancel := context.WithTimeout(ctx, engine.ConnectTimeout)
	defer cancel()

	service, err := identity.Open(opening, cfg)
	if err != nil {
		return nil, fmt.Errorf("identity service: %w", err)
	}

	if service.MadeFirst {
		if kept, err := os.ReadFile(PasswordFile(dataDir)); err == nil && string(kept) == made {
			fmt.Fprintf(
				os.Stdout, "\n  First sign-in (shown once, kept in %s): admin\n    %s\n",
				PasswordFile(dataDir), made,
			)
		}
	}

	return lifecycle.Func("identity service", func(ctx context.Context) error { return service.Serve(ctx, front) }), nil
}

// Identity serves the identity service alone.
type Identity struct {
	Addr           string   `default:"127.0.0.1:19000" env:"IDENTITY_ADDR" help:"Where the identity service listens."`
	DataDir        string   `default:"./data" env:"DATA_DIR" type:"path" help:"Data directory."`
	DatabaseURL    string   `env:"DATABASE_URL" help:"PostgreSQL 15 or newer; the service uses the schema identity of it."`
	AgentURL       string   `env:"AGENT_URL" help:"The agent, which is asked about API keys; without it they are not accepted."`
	AllowedOrigins []string `env:"ALLOWED_ORIGINS" help:"Origins of other sites whose pages may use the cookies."`
	flags.Proxies  `embed:""`
	EncryptionKey  string `env:"ENCRYPTION_KEY" help:"Key of at least 32 characters for values encrypted at rest; when unset, one is made and kept in encryption-key below KEY_DIR."`

	flags.Keys       `embed:""`
	flags.Hosts      `embed:""`
	identitySettings `embed:""`
}

// Run implements the command.
func (c *Identity) Run(ctx context.Context) error {
	var missing error
	if c.DatabaseURL == "" {
		missing = errors.New("set DATABASE_URL")
	}

	if err := errors.Join(
		flags.CheckAddress("IDENTITY_ADDR", c.Addr), c.Hosts.Check(), c.Proxies.Check(), missing, c.identitySettings.check(),
		flags.CheckPublished(c.EncryptionKey, c.Addr),
	); err != nil {
		return err
	}

	front, err := flags.Listen("IDENTITY_ADDR", c.Addr)
	if err != nil {
		return err
	}
	defer front.Close()

	box, err := c.SecretBox(c.DataDir, c.EncryptionKey)
	if err != nil {
		return err
	}

	cfg, err := c.identitySettings.config(front, c.DataDir, identity.Config{
		DatabaseURL: c.DatabaseURL, AgentURL: c.AgentURL, Box: box,
		Proxies: c.Trusted(), Origins: c.AllowedOrigins, Hosts: c.Allowed(),
	})
	if err != nil {
		return err
	}

	service, err := openIdentity(ctx, cfg, c.DataDir, front)
	if err != nil {
		return err
	}

	return lifecycle.Run(ctx, lifecycle.Layer{service})
}
