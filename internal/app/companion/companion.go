// Package companion has the roles of the services next to the agent: the identity
// service, the skill registry, the desktop, the model gateway, git hosting and the mock
// service. The agent reaches them over HTTP only, whether they run in the process of
// `up` or as roles of their own.
package companion

import (
	"cmp"
	"context"
	"errors"
	"net"

	"everloop/companions/gateway"
	"everloop/internal/app/engine"
	"everloop/internal/app/flags"
	"everloop/internal/lifecycle"
)

// companion is a service next to the agent. Its file has all that this package knows of
// it; the list below names them all, in the order in which they start.
type companion struct {
	label    string // in the summary of a start
	variable string // of its address
	address  func(s *Settings) string

	// listen takes its port; nil: as any other.
	listen func(variable, addr string) (net.Listener, error)

	// open makes the service, which serves on the listener. The engines are started.
	open func(ctx context.Context, b *Beside, agent Agent, front net.Listener) (lifecycle.Service, error)
}

// list lists the services that `up` runs next to the agent.
func list() []companion {
	return []companion{identityCompanion(), registryCompanion(), desktopCompanion(), gatewayCompanion(), gitCompanion(), mockCompanion()}
}

// Settings are the flags and variables of the companions in `up`.
type Settings struct {
	MockAddr     string `default:"127.0.0.1:30023" env:"MOCK_ADDR" help:"Where the mock service listens."`
	mockSettings `embed:""`

	IdentityAddr     string `default:"127.0.0.1:19000" env:"IDENTITY_ADDR" help:"Where the identity service listens."`
	identitySettings `embed:""`

	DesktopAddr string `default:"127.0.0.1:80" env:"DESKTOP_ADDR" help:"Where the desktop listens; port 8080 where 80 may not be bound."`

	GatewayAddr string `default:"127.0.0.1:30000" env:"GATEWAY_ADDR" help:"Where the model gateway listens."`

	RegistryAddr     string `default:"127.0.0.1:8010" env:"REGISTRY_ADDR" help:"Where the skill registry listens."`
	registrySettings `embed:""`

	GitAddr string `default:"127.0.0.1:30030" env:"GIT_ADDR" help:"Where git hosting listens."`
}

// Check finds the faults of the addresses, and of the registry and git hosting.
func (s *Settings) Check() error {
	var faults []error
	for _, one := range list() {
		faults = append(faults, flags.CheckAddress(one.variable, one.address(s)))
	}

	return errors.Join(append(faults, s.registrySettings.check())...)
}

// Agent is what companions share with the agent of their process.
type Agent struct {
	Addr     string // AGENT_ADDR
	DataDir  string
	Database string // its URL
	Objects  engine.ObjectsSettings

	EncryptionKey string
	Keys          flags.Keys
	Hosts         flags.Hosts
	Proxies       flags.Proxies
	Origins       []string // of other sites whose pages may use the cookies

	// The companions that the agent uses, in this process or elsewhere.
	IdentityURL string
	RegistryURL string
}

// url returns the address by which services of this process reach the agent.
func (a Agent) url() string { return "http://" + flags.Reachable(a.Addr) }

// agentURL returns where the companions ask whether credentials are valid.
func (s *Settings) agentURL(agent Agent) string {
	return cmp.Or(s.registrySettings.AgentURL, agent.url())
}

// Beside are the companions of the process of `up`, whose ports are taken.
type Beside struct {
	settings *Settings
	fronts   map[string]net.Listener // by the variables of their addresses
	gateway  *gateway.Service        // made before the others: the agent is its client
}

// Listen takes the ports of all companions.
func (s *Settings) Listen() (*Beside, error) {
	b := &Beside{settings: s, fronts: map[string]net.Listener{}}

	for _, one := range list() {
		take := one.listen
		if take == nil {
			take = flags.Listen
		}

		front, err := take(one.variable, one.address(s))
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}

		b.fronts[one.variable] = front
	}

	return b, nil
}

// Close gives the ports back.
func (b *Beside) Close() error {
	var failed error

	for _, front := range b.fronts {
		if err := front.Close(); !errors.Is(err, net.ErrClosed) {
			failed = errors.Join(failed, err)
		}
	}

	return failed
}

// Addr returns where the companion of a variable listens.
func (b *Beside) Addr(variable string) string { return b.fronts[variable].Addr().String() }

// URL returns the address by which the agent reaches the companion of a variable.
func (b *Beside) URL(variable string) string { return "http://" + flags.Reachable(b.Addr(variable)) }

// Addrs are those of all of them.
func (b *Beside) Addrs() []string {
	var all []string
	for variable := range b.fronts {
		all = append(all, b.Addr(variable))
	}

	return all
}

// Listener is where a companion listens, for the summary of a start.
type Listener struct {
	Label, Addr string
}

// Listeners are those of all of them, in the order in which they start.
func (b *Beside) Listeners() []Listener {
	var all []Listener
	for _, one := range list() {
		all = append(all, Listener{one.label, b.Addr(one.variable)})
	}

	return all
}

// Open makes the services of all companions. The gateway is made already.
func (b *Beside) Open(ctx context.Context, agent Agent) (lifecycle.Layer, error) {
	var services lifecycle.Layer

	for _, one := range list() {
		service, err := one.open(ctx, b, agent, b.fronts[one.variable])
		if err != nil {
			return nil, err
		}

		services = append(services, service)
	}

	return services, nil
}
