package skillregistry

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Registries are where skills are installed from: the service's own registry, and those of
// partners for the organisations that the operator names. What a registry says of other
// organisations' skills does not count, so that none can take another one's place.
type Registries struct {
	own      *Client
	partners map[string]*Client // by organisation
}

// NewRegistries takes the address of the service's own registry, empty for none, and those
// of partners by organisation. It is nil where there is neither.
func NewRegistries(own string, partners map[string]string) *Registries {
	if own == "" && len(partners) == 0 {
		return nil
	}

	r := &Registries{own: New(own), partners: map[string]*Client{}}
	clients := map[string]*Client{} // one for each address

	for org, base := range partners {
		if clients[base] == nil {
			clients[base] = New(base)
		}

		r.partners[org] = clients[base]
	}

	return r
}

// of returns the registry of an organisation; nil where there is none.
func (r *Registries) of(org string) *Client {
	if partner := r.partners[org]; partner != nil {
		return partner
	}

	return r.own
}

// Versions is that of the organisation's registry.
func (r *Registries) Versions(ctx context.Context, org, name string) ([]Version, error) {
	return r.of(org).Versions(ctx, org, name)
}

// Version is that of the organisation's registry.
func (r *Registries) Version(ctx context.Context, org, name, version string) (Version, error) {
	return r.of(org).Version(ctx, org, name, version)
}

// Download is that of the organisation's registry.
func (r *Registries) Download(ctx context.Context, org, name, version string) (archive []byte, digest string, err error) {
	return r.of(org).Download(ctx, org, name, version)
}

// Search asks all registries at once, and gives what those found that answer, with the
// errors of the others.
func (r *Registries) Search(ctx context.Context, q string, limit int) ([]Listing, error) {
	var clients []*Client
	if r.own != nil {
		clients = append(clients, r.own)
	}

	for _, partner := range r.partners {
		if !slices.Contains(clients, partner) {
			clients = append(clients, partner)
		}
	}

	found, faults := make([][]Listing, len(clients)), make([]error, len(clients))

	var all sync.WaitGroup
	for i, client := range clients {
		all.Go(func() {
			list, err := client.Search(ctx, q, limit)
			found[i] = slices.DeleteFunc(list, func(one Listing) bool { return r.of(one.Org) != client })
			faults[i] = err
		})
	}

	all.Wait()

	return slices.Concat(found...), errors.Join(faults...)
}
