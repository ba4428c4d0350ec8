package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"everloop/domain"
	"everloop/domain/toolserver"
)

// Store stores configured servers and the last states of connections.
type Store interface {
	SessionMCPServers(ctx context.Context, sessionID domain.SessionID) ([]toolserver.Record, error)
	MCPSession(ctx context.Context, sessionID domain.SessionID) (domain.Session, error)
	MCPConnections(ctx context.Context, sessionID domain.SessionID) ([]toolserver.Connection, error)
	SaveMCPConnection(ctx context.Context, c toolserver.Connection) error
	// PinMCPTools returns the pins of the tools in a list of the server.
	PinMCPTools(ctx context.Context, server toolserver.Record, list []toolserver.Tool) ([]toolserver.Pin, error)
}

// Roots returns where a session's files are on this machine.
type Roots interface {
	Root(ctx context.Context, sessionID domain.SessionID, uid int) (string, error)
}

// Config contains the dependencies and limits of a Manager.
type Config struct {
	Store    Store
	Launcher Launcher
	Roots    Roots
	HTTP     HTTP
	// Environment returns the environment of a session's own servers in addition to their
	// variables; nil: the session's variables.
	Environment interface {
		ToolEnv(ctx context.Context, session domain.Session) (map[string]string, error)
	}
	// Policies return the network policies for HTTP servers of users; nil: no server is refused.
	Policies Policies
	// Presets return the programs of servers with a preset instead of a command; nil: none.
	Presets Presets
	// Profile returns the profile of a session; nil: the zero profile.
	Profile func(domain.Session) domain.Profile
	Version string // of this service, sent to servers
	Logger  *slog.Logger

	Idle         time.Duration // idle timeout of a connection; 0: 5 minutes
	MaxProcesses int           // maximum server processes on this machine; 0: 64
	ConnectTime  time.Duration // 0: 30 s
}

// Manager manages the connections of this process to tool servers, and offers their tools. It is
// safe for concurrent use.
type Manager struct {
	Config
	life context.Context // ends everything
	end  context.CancelFunc

	spawning sync.Mutex // guards running against Close
	ending   bool
	running  sync.WaitGroup

	mu     sync.Mutex
	links  map[linkKey]*link
	known  map[domain.SessionID]*known // by session
	closed bool
}

type linkKey struct {
	session domain.SessionID
	server  string
}

// known is a cache entry of a session's servers, possibly still loading. Forgetting removes it
// from its map: connections are made only for entries that are still in the map.
type known struct {
	servers []toolserver.Record
	until   time.Time // zero: not yet read
}

const (
	// knownFor is how long a session's servers are cached; Forget expires them sooner.
	knownFor       = 5 * time.Second
	idleCheckEvery = 15 * time.Second
	// forgetAfter is how long a link without a connection stays in memory.
	forgetAfter = 30 * time.Minute
	// maxReads limits repeated reads of the servers for one use, when servers change during each.
	maxReads = 10
)

// NewManager returns a new Manager, which must be closed.
func NewManager(c Config) *Manager {
	c.Idle = cmp.Or(c.Idle, 5*time.Minute)

	c.MaxProcesses = cmp.Or(c.MaxProcesses, 64)
	if c.Profile == nil {
		c.Profile = func(domain.Session) domain.Profile { return domain.Profile{} }
	}

	if c.Logger == nil {
		c.Logger = slog.Default()
	}

	m := &Manager{Config: c, links: map[linkKey]*link{}, known: map[domain.SessionID]*known{}}
	m.life, m.end = context.WithCancel(context.Background())
	m.spawn(m.closeIdle)
	m.spawn(m.closeRefused)

	return m
}

func (m *Manager) connectTime() time.Duration { return cmp.Or(m.ConnectTime, connectTime) }

// Close closes all connections, kills all processes, and waits for them.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.drop(func(linkKey, *link) bool { return true })
	m.end()
	m.spawning.Lock()
	m.ending = true
	m.spawning.Unlock()
	m.running.Wait()
}

// spawn runs a function in a goroutine that Close waits for; after Close it reports false.
func (m *Manager) spawn(run func()) bool {
	m.spawning.Lock()
	defer m.spawning.Unlock()

	if !m.ending {
		m.running.Go(run)
	}

	return !m.ending
}

// drop closes the matching links concurrently and waits for them.
func (m *Manager) drop(match func(linkKey, *link) bool) {
	var dropped []*link

	m.mu.Lock()
	for key, l := range m.links {
		if match(key, l) {
			dropped = append(dropped, l)

			delete(m.links, key)
		}
	}
	m.mu.Unlock()

	var all sync.WaitGroup
	for _, l := range dropped {
		all.Go(func() { l.rest(linkClosed) })
	}

	all.Wait()
}

// ForgetSession closes the connections of a session.
func (m *Manager) ForgetSession(sessionID domain.SessionID) {
	m.mu.Lock()
	delete(m.known, sessionID)
	m.mu.Unlock()
	m.drop(func(key linkKey, _ *link) bool { return key.session == sessionID })
}

// ForgetServer closes all connections to a server that was changed or removed, and expires the
// cached servers of all sessions.
func (m *Manager) ForgetServer(serverID string) {
	m.mu.Lock()
	clear(m.known)
	m.mu.Unlock()
	m.drop(func(_ linkKey, l *link) bool {
		l.mu.Lock()
		defer l.mu.Unlock()

		return l.target.server.ID == serverID
	})
}

// ForgetUser closes the connections of a user's sessions.
func (m *Manager) ForgetUser(userID string) {
	m.mu.Lock()
	clear(m.known)
	m.mu.Unlock()
	m.drop(func(_ linkKey, l *link) bool {
		l.mu.Lock()
		defer l.mu.Unlock()

		return l.target.session.OwnerID == userID || l.target.server.OwnerID == userID
	})
}

// servers returns the servers of a session and their cache entry.
func (m *Manager) servers(ctx context.Context, sessionID domain.SessionID) (list []toolserver.Record, k *known, err error) {
	now := time.Now()

	m.mu.Lock()

	k = m.known[sessionID]
	if k == nil {
		k = &known{}
		m.known[sessionID] = k
	}

	list, current := k.servers, now.Before(k.until)
	m.mu.Unlock()

	if current {
		return list, k, nil
	}

	if list, err = m.Store.SessionMCPServers(ctx, sessionID); err != nil {
		return nil, nil, err
	}

	m.mu.Lock()
	defer m.mu.Unlock()

	k.servers, k.until = list, now.Add(knownFor)

	return list, k, nil
}

// configHash identifies a configuration of a server in the database. Secrets count by their time
// of change: no digest of a secret is stored in plain text.
func configHash(s toolserver.Record) string {
	data, _ := json.Marshal([]any{s.ID, s.Transport, s.Preset, s.Command, s.Args, s.URL, s.Trusted, s.UpdatedAt.UnixMicro()})
	sum := sha256.Sum256(data)

	return hex.EncodeToString(sum[:12])
}

// fingerprint identifies configurations that need different connections. It contains secrets and
// must not leave this process.
func fingerprint(session domain.Session, s toolserver.Record) string {
	var env map[string]string
	if s.Transport == toolserver.Stdio && s.OfSession() && !s.OfPreset() {
		env = session.Env
	}

	data, _ := json.Marshal([]any{s.ID, s.Transport, s.Preset, s.Command, s.Args, s.Env, s.URL, s.Headers, s.Trusted, env})
	sum := sha256.Sum256(data)

	return hex.EncodeToString(sum[:12])
}

// linkAll returns the links of a session with its servers, and which of them are new. It reports
// false, and creates none, when k was forgotten since the servers were read: otherwise a link to
// a dropped server would stay.
func (m *Manager) linkAll(session domain.Session, servers []toolserver.Record, k *known) (links, fresh []*link, current bool) {
	m.mu.Lock()
	defer m.mu.Unlock()

	if m.closed {
		return nil, nil, true
	}

	if m.known[session.ID] != k {
		return nil, nil, false
	}

	for _, server := range servers {
		l, isNew := m.link(session, server)

		links = append(links, l)
		if isNew {
			fresh = append(fresh, l)
		}
	}

	return links, fresh, true
}

// link returns the link of a session with a server and marks it as used. A link with another
// configuration is closed. m.mu must be held.
func (m *Manager) link(session domain.Session, server toolserver.Record) (l *link, fresh bool) {
	t := target{session: session, server: server, fingerprint: fingerprint(session, server)}
	key := linkKey{session.ID, server.Name}

	if l = m.links[key]; l != nil {
		l.mu.Lock()

		same := l.target.fingerprint == t.fingerprint
		if same {
			if !l.target.server.UpdatedAt.Equal(server.UpdatedAt) {
				l.offer = nil
			}

			l.target, l.used = t, time.Now()
		}
		l.mu.Unlock()

		if same {
			return l, false
		}

		old := l

		m.spawn(func() { old.rest(linkClosed) })
	}

	l = &link{manager: m, target: t, used: time.Now()}
	m.links[key] = l

	return l, true
}

// closeIdle periodically closes connections that are not used.
func (m *Manager) closeIdle() {
	tick := time.NewTicker(min(idleCheckEvery, m.Idle))
	defer tick.Stop()

	for {
		select {
		case <-m.life.Done():
			return
		case now := <-tick.C:
			m.tidy(now)
		}
	}
}

// tidy removes expired cache entries, closes idle connections and removes links that were not
// used for forgetAfter.
func (m *Manager) tidy(now time.Time) {
	m.mu.Lock()
	for id, k := range m.known {
		if now.After(k.until) {
			delete(m.known, id)
		}
	}

	var idle []*link

	for key, l := range m.links {
		l.mu.Lock()

		unused := now.Sub(l.used)
		switch {
		case l.calls > 0:
		case l.state == linkUp && unused > m.Idle:
			idle = append(idle, l)
		case (l.state == linkIdle || l.state == linkDown) && unused > forgetAfter:
			delete(m.links, key)
		}
		l.mu.Unlock()
	}
	m.mu.Unlock()

	for _, l := range idle {
		l.rest(linkIdle)
	}
}

var errCrowded = errors.New("too many tool servers run on this machine just now")

// makeRoom closes the least recently used idle process when the limit of processes is reached. It
// returns errCrowded when all are busy.
func (m *Manager) makeRoom(for_ *link) error {
	m.mu.Lock()

	var idle []*link

	count := 0

	for _, l := range m.links {
		if l == for_ {
			continue
		}

		l.mu.Lock()
		if l.target.server.Transport == toolserver.Stdio && (l.state == linkUp || l.state == linkConnecting) {
			count++

			if l.state == linkUp && l.calls == 0 {
				idle = append(idle, l)
			}
		}
		l.mu.Unlock()
	}
	m.mu.Unlock()

	if count < m.MaxProcesses {
		return nil
	}

	if len(idle) == 0 {
		return errCrowded
	}

	slices.SortFunc(idle, func(a, b *link) int { return a.lastUse().Compare(b.lastUse()) })
	idle[0].rest(linkIdle)

	return nil
}

func (l *link) lastUse() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.used
}
