package egress

import (
	"sync"
	"sync/atomic"

	"everloop/domain"
)

// records sums up the connections of one command by destination and decision.
type records struct {
	mu      sync.Mutex
	byPlace map[recordKey]*record
	order   []recordKey
}

type recordKey struct {
	host     string
	port     uint16
	decision domain.NetworkDecision
}

type record struct {
	count          int    // guarded by records.mu
	reason         string // the last non-empty reason; likewise
	sent, received atomic.Int64
}

// note counts a connection and returns the record for its bytes. Destinations beyond the limit
// share one record per decision.
func (r *records) note(host string, port uint16, decision domain.NetworkDecision, reason string) *record {
	r.mu.Lock()
	defer r.mu.Unlock()

	key := recordKey{host, port, decision}

	known := r.byPlace[key]
	if known == nil && len(r.order) >= domain.MaxConnections {
		key, reason = recordKey{"*", 0, decision}, ""
		known = r.byPlace[key]
	}

	if known == nil {
		known = &record{}

		if r.byPlace == nil {
			r.byPlace = map[recordKey]*record{}
		}

		r.byPlace[key] = known
		r.order = append(r.order, key)
	}

	known.count++
	if reason != "" {
		known.reason = reason
	}

	return known
}

// list returns the records in the order of the first connection to each destination.
func (r *records) list() []domain.Connection {
	r.mu.Lock()
	defer r.mu.Unlock()

	var all []domain.Connection

	for _, key := range r.order {
		known := r.byPlace[key]
		all = append(all, domain.Connection{
			Host: key.host, Port: int(key.port), Decision: key.decision, Reason: known.reason, Count: known.count,
			BytesSent: known.sent.Load(), BytesReceived: known.received.Load(),
		})
	}

	return all
}
