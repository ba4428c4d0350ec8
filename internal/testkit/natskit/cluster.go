package natskit

import (
	"bytes"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// clusterSize is the number of servers in a [Cluster].
const clusterSize = 3

// Cluster is three NATS servers with JetStream in this process. Their routes run through
// proxies, so that one server can lag: see [Cluster.Lag].
type Cluster struct {
	t       testing.TB
	servers []*server.Server

	mu     sync.Mutex
	routes []*route
	lags   string        // name of the lagging server; empty: none
	resume chan struct{} // closed when it no longer lags
	closed bool
}

// NewCluster starts a cluster, which ends with the test.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	t.TempDir() // the directories are removed once the servers have stopped

	c := &Cluster{t: t, resume: make(chan struct{})}
	t.Cleanup(c.stop)

	var (
		peers   []*url.URL
		targets []chan string
	)

	for range clusterSize {
		target := make(chan string, 1)
		targets = append(targets, target)
		peers = append(peers, c.proxy(target))
	}

	for i, peer := range peers {
		c.servers = append(c.servers, c.startMember(i, peer.Host, peers))
		require.True(t, c.servers[i].ReadyForConnections(time.Minute))

		targets[i] <- c.servers[i].ClusterAddr().String()
	}

	require.Eventually(t, func() bool {
		for _, s := range c.servers {
			if s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == clusterSize {
				return true
			}
		}

		return false
	}, time.Minute, 10*time.Millisecond, "the servers elect a leader")

	return c
}

func (c *Cluster) startMember(n int, advertised string, peers []*url.URL) *server.Server {
	c.t.Helper()

	options := &server.Options{
		ServerName: memberName(n), JetStream: true, StoreDir: c.t.TempDir(), Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true,
		Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: -1, Advertise: advertised, NoAdvertise: true},
		Routes:  peers,
	}

	member, err := server.NewServer(options)
	require.NoError(c.t, err)

	member.Start()

	return member
}

func memberName(n int) string { return fmt.Sprintf("member-%d", n) }

// Connect returns a connection to one of the servers.
func (c *Cluster) Connect(n int) *nats.Conn {
	c.t.Helper()

	nc, err := nats.Connect("", nats.InProcessServer(c.servers[n]), nats.MaxReconnects(-1),
		nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0), nats.Timeout(time.Minute))
	require.NoError(c.t, err)
	c.t.Cleanup(nc.Close)

	return nc
}

// Member returns the number of the server with a name, as in a stream's information.
func (c *Cluster) Member(name string) int {
	c.t.Helper()

	for n, s := range c.servers {
		if s.Name() == name {
			return n
		}
	}

	c.t.Fatalf("no server is named %q", name)

	return 0
}

// Lag makes a server lag until CatchUp: its replication in both directions stops, while all
// clients continue. It serves direct gets from its unchanged streams.
func (c *Cluster) Lag(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.lags, c.resume = memberName(n), make(chan struct{})
}

// CatchUp ends Lag.
func (c *Cluster) CatchUp() {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.lags != "" {
		close(c.resume)
		c.lags = ""
	}
}

// stop stops the servers, and then the proxies.
func (c *Cluster) stop() {
	c.CatchUp()

	for _, s := range c.servers {
		s.Shutdown()
	}

	for _, s := range c.servers {
		s.WaitForShutdown()
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	c.closed = true
	for _, r := range c.routes {
		r.close()
	}
}

// proxy listens for routes to a server whose address is received from target later.
func (c *Cluster) proxy(target <-chan string) *url.URL {
	c.t.Helper()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(c.t, err)
	c.t.Cleanup(func() { listener.Close() })

	go func() {
		addr := <-target

		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}

			to, err := net.Dial("tcp", addr)
			if err != nil {
				from.Close()
				continue
			}

			c.open(&route{cluster: c, ends: [2]net.Conn{from, to}, members: map[string]bool{}})
		}
	}()

	return &url.URL{Scheme: "nats", Host: listener.Addr().String()}
}

func (c *Cluster) open(r *route) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.closed {
		r.close()
		return
	}

	c.routes = append(c.routes, r)

	go r.pipe(r.ends[0], r.ends[1])
	go r.pipe(r.ends[1], r.ends[0])
}

// route is one connection between two servers.
type route struct {
	cluster *Cluster
	ends    [2]net.Conn

	mu      sync.Mutex
	members map[string]bool // as the servers introduced themselves
	system  bool            // it transmits the system account, whose traffic is replication
}

var (
	introduction = regexp.MustCompile(`"server_name":"(member-\d)"`)
	systemRoute  = []byte(`"route_account":"$SYS"`)
)

func (r *route) pipe(from, to net.Conn) {
	defer r.close()

	introduced := false

	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			introduced = introduced || r.learn(buffer[:n])
			r.wait()

			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}

		if err != nil {
			return
		}
	}
}

// learn records the server that introduces itself in the data, and whether the route belongs to
// the system account. It reports whether the data contains an introduction: later ones belong to
// other routes.
func (r *route) learn(data []byte) bool {
	found := introduction.FindSubmatch(data)
	if found == nil {
		return false
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	r.members[string(found[1])] = true
	r.system = r.system || bytes.Contains(data, systemRoute)

	return true
}

// wait delays data while a server of the route lags.
func (r *route) wait() {
	r.cluster.mu.Lock()
	lags, resume := r.cluster.lags, r.cluster.resume
	r.cluster.mu.Unlock()

	r.mu.Lock()
	held := r.system && r.members[lags]
	r.mu.Unlock()

	if held {
		<-resume
	}
}

func (r *route) close() {
	for _, end := range r.ends {
		end.Close()
	}
}
