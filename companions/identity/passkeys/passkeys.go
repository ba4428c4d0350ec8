// Package passkeys implements WebAuthn for a relying party: it creates challenges for
// authenticators and checks their answers. It must not depend on where keys and challenges are
// stored.
package passkeys

import (
	"encoding/json"
	"errors"
	"net/netip"
	"net/url"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
)

// ErrRefused is the error of an invalid answer.
var ErrRefused = errors.New("the passkey was not accepted")

// Party is the relying party: a site.
type Party struct{ web *webauthn.WebAuthn }

// New returns a new relying party of a site. It returns nil for a site without a host name:
// browsers do not support passkeys for IP addresses, nor for http except localhost.
func New(site *url.URL) (*Party, error) {
	host := site.Hostname()
	if _, err := netip.ParseAddr(host); err == nil || site.Scheme != "https" && host != "localhost" {
		return nil, nil //nolint:nilnil // a nil party is valid: passkeys are not offered
	}

	web, err := webauthn.New(&webauthn.Config{
		RPID: host, RPDisplayName: "Everloop", RPOrigins: []string{site.Scheme + "://" + site.Host},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementRequired, RequireResidentKey: protocol.ResidentKeyRequired(),
			UserVerification: protocol.VerificationRequired,
		},
	})
	if err != nil {
		return nil, err
	}

	return &Party{web}, nil
}

// Key is a passkey: its id at the authenticator, its public key, and the state that changes
// with each use.
type Key struct {
	ID   []byte
	Data json.RawMessage
}

// User is a person with passkeys.
type User struct {
	ID, Username, Name string
	Keys               []Key
}

// person implements the library's interface for a User.
type person struct {
	User
	credentials []webauthn.Credential
}

func load(p User) (person, error) {
	out := person{User: p}

	for _, key := range p.Keys {
		var c webauthn.Credential
		if err := json.Unmarshal(key.Data, &c); err != nil {
			return person{}, err
		}

		out.credentials = append(out.credentials, c)
	}

	return out, nil
}

func (p person) WebAuthnID() []byte                         { return []byte(p.ID) }
func (p person) WebAuthnName() string                       { return p.Username }
func (p person) WebAuthnCredentials() []webauthn.Credential { return p.credentials }

func (p person) WebAuthnDisplayName() string {
	if p.Name == "" {
		return p.Username
	}

	return p.Name
}

// BeginRegistration returns the options of a new passkey, for the browser, and the state that
// Register needs, which must be protected from changes by the client.
func (p *Party) BeginRegistration(of User) (options any, state []byte, err error) {
	holder, err := load(of)
	if err != nil {
		return nil, nil, err
	}

	known := make([]protocol.CredentialDescriptor, len(holder.credentials))
	for i := range holder.credentials {
		known[i] = holder.credentials[i].Descriptor()
	}

	creation, session, err := p.web.BeginRegistration(holder, webauthn.WithExclusions(known))
	if err != nil {
		return nil, nil, err
	}

	state, err = json.Marshal(session)

	return creation, state, err
}

// Register verifies a new passkey.
func (p *Party) Register(of User, state, answer []byte) (Key, error) {
	var session webauthn.SessionData
	if err := json.Unmarshal(state, &session); err != nil {
		return Key{}, err
	}

	holder, err := load(of)
	if err != nil {
		return Key{}, err
	}

	parsed, err := protocol.ParseCredentialCreationResponseBytes(answer)
	if err != nil {
		return Key{}, errors.Join(ErrRefused, err)
	}

	made, err := p.web.CreateCredential(holder, session, parsed)
	if err != nil {
		return Key{}, errors.Join(ErrRefused, err)
	}

	return keyOf(made)
}

func keyOf(c *webauthn.Credential) (Key, error) {
	data, err := json.Marshal(c)

	return Key{ID: c.ID, Data: data}, err
}

// BeginLogin returns the options of a sign-in with any passkey of the site, and the state that
// Login needs.
func (p *Party) BeginLogin() (options any, state []byte, err error) {
	assertion, session, err := p.web.BeginDiscoverableLogin(webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return nil, nil, err
	}

	state, err = json.Marshal(session)

	return assertion, state, err
}

// Login checks the answer to a challenge. find returns the owner of a key; its error is
// returned. The caller must store the returned key.
func (p *Party) Login(state, answer []byte, find func(keyID []byte, userID string) (User, error)) (Key, error) {
	var session webauthn.SessionData
	if err := json.Unmarshal(state, &session); err != nil {
		return Key{}, err
	}

	parsed, err := protocol.ParseCredentialRequestResponseBytes(answer)
	if err != nil {
		return Key{}, errors.Join(ErrRefused, err)
	}

	var failed error

	used, err := p.web.ValidateDiscoverableLogin(func(keyID, userHandle []byte) (webauthn.User, error) {
		found, err := find(keyID, string(userHandle))
		if err != nil {
			failed = err
			return nil, err
		}

		holder, err := load(found)
		failed = err

		return holder, err
	}, session, parsed)

	if failed != nil {
		return Key{}, failed
	}

	if err != nil {
		return Key{}, errors.Join(ErrRefused, err)
	}

	if used.Authenticator.CloneWarning { // its counter decreased: the key was cloned
		return Key{}, errors.Join(ErrRefused, errors.New("the counter of the authenticator went back"))
	}

	return keyOf(used)
}
