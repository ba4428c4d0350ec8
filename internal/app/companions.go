package app

import (
	"context"
	"errors"
	"net"

	"everloop/internal/lifecycle"
)

// companion is a service beside the agent. The agent reaches it over HTTP only, whether
// it runs in the process of `up` or as a role of its own. Its file has all that this
// package knows of it; the list below names them all, in the order in which they start.
type companion struct {
	label    string // in the summary of a start
	variable string // of its address
	address  func(c *Up) string

	// listen takes its port; nil: as any other.
	listen func(variable, addr string) (net.Listener, error)

	// open makes the service, which serves on the listener. The engines are started.
	open func(ctx context.Context, c *Up, front net.Listener) (lifecycle.Service, error)
}

// companionList lists the services that `up` runs beside the agent.
func companionList() []companion {
	return []companion{identityCompanion(), registryCompanion(), desktopCompanion(), gatewayCompanion(), gitCompanion(), mockCompanion()}
}

// checkCompanions finds the faults of their addresses.
func (c *Up) checkCompanions() error {
	var faults error
	for _, one := range companionList() {
		faults = errors.Join(faults, address(one.variable, one.address(c)))
	}

	return faults
}

// fronts are the listeners of the companions, by the variables of their addresses.
type fronts map[string]net.Listener

// listenCompanions takes the ports of all companions.
func (c *Up) listenCompanions() (fronts, error) {
	taken := fronts{}

	for _, one := range companionList() {
		take := one.listen
		if take == nil {
			take = listen
		}

		front, err := take(one.variable, one.address(c))
		if err != nil {
			return nil, errors.Join(err, taken.close())
		}

		taken[one.variable] = front
	}

	return taken, nil
}

func (f fronts) close() error {
	var failed error

	for _, front := range f {
		if err := front.Close(); !errors.Is(err, net.ErrClosed) {
			failed = errors.Join(failed, err)
		}
	}

	return failed
}

// addr is where the companion of a variable listens.
func (f fronts) addr(variable string) string { return f[variable].Addr().String() }

// addrs are those of all of them.
func (f fronts) addrs() []string {
	var all []string
	for variable := range f {
		all = append(all, f.addr(variable))
	}

	return all
}

// openCompanions makes the services of all companions.
func (c *Up) openCompanions(ctx context.Context, taken fronts) (lifecycle.Layer, error) {
	var services lifecycle.Layer

	for _, one := range companionList() {
		service, err := one.open(ctx, c, taken[one.variable])
		if err != nil {
			return nil, err
		}

		services = append(services, service)
	}

	return services, nil
}
