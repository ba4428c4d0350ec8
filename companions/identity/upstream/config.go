// Package upstream signs people in with other OpenID providers: their configuration, and the
// authorization code flow with PKCE, state and nonce. It must not depend on users.
package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Provider is one other OpenID provider.
type Provider struct {
	ID               string   `yaml:"id"`     // part of the redirect URI
	Name             string   `yaml:"name"`   // as the sign-in page shows it
	Issuer           string   `yaml:"issuer"` // where its discovery document is
	ClientID         string   `yaml:"client_id"`
	ClientSecret     string   `yaml:"client_secret"`      // none: a public client
	ClientSecretFile string   `yaml:"client_secret_file"` // instead of client_secret
	Scopes           []string `yaml:"scopes"`             // openid, profile and email when empty

	// CreateUsers allows a first sign-in to create an account, for a verified e-mail address of
	// EmailDomains, or of any domain when that is empty.
	CreateUsers  bool     `yaml:"create_users"`
	EmailDomains []string `yaml:"email_domains"`
}

const (
	maxFile      = 1 << 20
	maxProviders = 20
)

var idForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// Config is the content of the file OAUTH_CONFIG_YAML_PATH: how people sign in.
type Config struct {
	Providers []Provider `yaml:"providers"`
	// Clients are programs that sign people in by this service, in addition to the desktop.
	Clients []Client `yaml:"clients"`
	// AdminSecondFactor requires a second factor of administrators.
	AdminSecondFactor bool `yaml:"admin_second_factor"`
}

// Client is a public client of this service's own OpenID provider.
type Client struct {
	ID           string   `yaml:"id"`
	RedirectURIs []string `yaml:"redirect_uris"`
}

// Load reads a YAML file. An unknown field is an error.
func Load(path string) (Config, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Config{}, err
	}

	if info.Size() > maxFile {
		return Config{}, fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}

	text, err := os.ReadFile(path)
	if err != nil {
		return Config{}, err
	}

	return Parse(text)
}

// Parse parses such a file, with secrets from separate files.
func Parse(text []byte) (Config, error) {
	var file Config

	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)

	if err := decoder.Decode(&file); err != nil {
		return Config{}, errors.New("not YAML, or an unknown field") // the text may hold secrets
	}

	if len(file.Providers) > maxProviders {
		return Config{}, fmt.Errorf("it has more than %d providers", maxProviders)
	}

	seen := map[string]bool{}

	for i := range file.Providers {
		p := &file.Providers[i]
		if err := p.complete(); err != nil {
			return Config{}, fmt.Errorf("provider %d: %w", i+1, err)
		}

		if seen[p.ID] {
			return Config{}, fmt.Errorf("provider %d: id %s is duplicated", i+1, p.ID)
		}

		seen[p.ID] = true
	}

	return file, nil
}

// complete checks a provider, reads its secret and sets defaults.
func (p *Provider) complete() error {
	if !idForm.MatchString(p.ID) {
		return errors.New("id must have 1 to 32 lower-case letters, digits and hyphens")
	}

	if p.ClientID == "" {
		return errors.New("client_id is missing")
	}

	u, err := url.Parse(p.Issuer)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return errors.New("issuer must be the URL of the provider")
	}

	local := u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
	if u.Scheme != "https" && (u.Scheme != "http" || !local) {
		return errors.New("issuer must be https, or http on this machine")
	}

	if p.ClientSecretFile != "" {
		if p.ClientSecret != "" {
			return errors.New("set client_secret or client_secret_file, not both")
		}

		secret, err := os.ReadFile(p.ClientSecretFile)
		if err != nil {
			return fmt.Errorf("client_secret_file: %w", err)
		}

		p.ClientSecret = strings.TrimSpace(string(secret))
	}

	if p.Name == "" {
		p.Name = p.ID
	}

	if len(p.Scopes) == 0 {
		p.Scopes = []string{"openid", "profile", "email"}
	}

	if !slices.Contains(p.Scopes, "openid") {
		p.Scopes = append([]string{"openid"}, p.Scopes...)
	}

	for i, domain := range p.EmailDomains {
		p.EmailDomains[i] = strings.ToLower(strings.TrimPrefix(domain, "@"))
	}

	return nil
}

// Admits reports whether a first sign-in can create an account for a person.
func (p *Provider) Admits(who ExternalUser) bool {
	if !p.CreateUsers || !who.EmailVerified || who.Email == "" {
		return false
	}

	_, domain, _ := strings.Cut(strings.ToLower(who.Email), "@")

	return len(p.EmailDomains) == 0 || slices.Contains(p.EmailDomains, domain)
}
