package flags

import (
	"fmt"
	"slices"

	"everloop/internal/hosts"
)

// Hosts name the hosts that listeners answer.
type Hosts struct {
	AllowedHosts []string `env:"ALLOWED_HOSTS" help:"Host names by which clients reach this service besides localhost, IP addresses and names without a dot, such as everloop.example.org or *.example.org; * allows all, behind a proxy that checks them."`
}

// Allowed gives the names as a list that checks them. An empty entry, as container
// managers make one of a variable that is not set, is none.
func (s Hosts) Allowed() hosts.List {
	return slices.DeleteFunc(slices.Clone(hosts.List(s.AllowedHosts)), func(name string) bool { return name == "" })
}

// Check finds names that are none.
func (s Hosts) Check() error {
	if err := s.Allowed().Check(); err != nil {
		return fmt.Errorf("ALLOWED_HOSTS: %w", err)
	}

	return nil
}
