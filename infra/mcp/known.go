package mcp

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/domain/toolserver"
)

// KnownTools returns the tools of a session's servers from the database, as of the last
// connections, for listing and token estimates. It opens no connection and starts no process, and
// its tools cannot be run. It is safe for concurrent use.
type KnownTools struct {
	Store    Store
	Policies Policies // nil: no server is refused
	Logger   *slog.Logger

	mu       sync.Mutex
	prepared map[knownKey][]tools.Tool
}

// knownKey identifies a state of one session's connection to a server.
type knownKey struct {
	session      domain.SessionID
	server, hash string
	at           time.Time
}

// maxKnown is the maximum number of cached tool lists.
const maxKnown = 256

// Tools implements tools.Provider.
func (k *KnownTools) Tools(ctx context.Context, s tools.Scope) []tools.Tool {
	var servers []toolserver.Record

	if !s.Session.NoToolServers {
		var err error
		if servers, err = k.Store.SessionMCPServers(ctx, s.Session.ID); err != nil {
			k.Logger.Warn("failed to read the tool servers of a session", "session_id", s.Session.ID, "error", err)
			return nil
		}
	}

	used, _ := toolserver.Used(toolserver.WithConfigured(servers, s.Profile.MCPServers))
	if len(used) == 0 {
		return nil
	}

	states, err := k.Store.MCPConnections(ctx, s.Session.ID)
	if err != nil {
		k.Logger.Warn("failed to read the states of tool servers", "session_id", s.Session.ID, "error", err)
		return nil
	}

	refusal, err := policyFor(ctx, k.Policies, s.Session.ID, used)
	if err != nil {
		k.Logger.Warn("failed to read the network policy of a session", "session_id", s.Session.ID, "error", err)
		return nil
	}

	var all []tools.Tool

	for _, server := range used {
		if refusal(server) != "" {
			continue
		}

		for _, state := range states {
			if state.Name == server.Name && state.Fingerprint == configHash(server) && state.Status != toolserver.Failed {
				all = append(all, k.offer(server, state)...)
			}
		}
	}

	return all
}

// offer returns the tools of one server, cached by state.
func (k *KnownTools) offer(server toolserver.Record, state toolserver.Connection) []tools.Tool {
	key := knownKey{state.SessionID, server.Name, state.Fingerprint, state.UpdatedAt}

	k.mu.Lock()
	made, ok := k.prepared[key]
	k.mu.Unlock()

	if ok {
		return made
	}

	made = offerOf(server, state.Tools, func(string, bool) runner { return nil })

	k.mu.Lock()
	defer k.mu.Unlock()

	if k.prepared == nil || len(k.prepared) >= maxKnown {
		k.prepared = map[knownKey][]tools.Tool{} // entries in use are added again on their next read
	}

	k.prepared[key] = made

	return made
}
