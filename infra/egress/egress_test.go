package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/net/proxy"

	"everloop/domain"
	"everloop/infra/netguard"
)

// env is a proxy of one command on a loopback port.
type env struct {
	*Command
	t    *testing.T
	addr string
}

// open gives a command a proxy whose guard lets through what allow names.
func open(t *testing.T, cfg Config, policy domain.NetworkPolicy, allow ...string) env {
	t.Helper()

	var err error

	cfg.Guard, err = netguard.New(allow, nil)
	require.NoError(t, err)

	return openIn(t, New(cfg), policy)
}

func openIn(t *testing.T, p *Proxy, policy domain.NetworkPolicy) env {
	t.Helper()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	c := p.Open(func(context.Context) (domain.NetworkPolicy, error) { return policy, nil })
	c.Serve(listener)
	t.Cleanup(func() { c.Close() })

	return env{c, t, listener.Addr().String()}
}

func allowing(patterns ...string) domain.NetworkPolicy {
	var rules []domain.PermissionRule
	for _, p := range patterns {
		rules = append(rules, domain.PermissionRule{Tool: domain.NetworkTool, Pattern: p, Decision: domain.PermissionAllow})
	}

	return domain.NewNetworkPolicy(domain.NetworkRules, rules)
}

// client returns an HTTP client that goes through the proxy.
func (s env) client() *http.Client {
	at, _ := url.Parse("http://" + s.addr)
	transport := &http.Transport{Proxy: http.ProxyURL(at), TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	s.t.Cleanup(transport.CloseIdleConnections)

	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

func (s env) dial() net.Conn {
	conn, err := net.Dial("tcp", s.addr)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(s.t, conn.SetDeadline(time.Now().Add(2*time.Minute)))

	return conn
}

// connect asks for a tunnel and gives the status line.
func (s env) connect(to string) (net.Conn, *bufio.Reader, string) {
	conn := s.dial()
	_, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", to, to)
	require.NoError(s.t, err)

	in := bufio.NewReader(conn)
	response, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect})
	require.NoError(s.t, err)

	return conn, in, response.Status
}

// entry gives the record of a place.
func (s env) entry(host string) (found domain.Connection) {
	for _, c := range s.Connections() {
		if c.Host == host {
			found = c
		}
	}

	return found
}

func hostPort(t *testing.T, server *httptest.Server) string {
	t.Helper()

	u, err := url.Parse(server.URL)
	require.NoError(t, err)

	return u.Host
}

func page(t *testing.T, text string) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }))
	t.Cleanup(server.Close)

	return server
}

// resolver answers every question for an address with the next of a list, over and over.
func resolver(t *testing.T, answers ...string) *net.Resolver {
	t.Helper()

	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })

	go func() {
		buf := make([]byte, 1500)
		for asked := 0; ; {
			n, from, err := server.ReadFrom(buf)
			if err != nil {
				return
			}

			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) == 0 {
				continue
			}

			m.Header.Response, m.Header.RecursionAvailable = true, true
			m.Additionals = nil

			addr := netip.MustParseAddr(answers[asked%len(answers)])
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA && addr.Is4() {
				asked++
				m.Answers = []dnsmessage.Resource{
					{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}, Body: &dnsmessage.AResource{A: addr.As4()}},
				}
			} else if q.Type == dnsmessage.TypeAAAA && addr.Is6() {
				asked++
				m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{
					Name:  q.Name,
					Class: q.Class,
				}, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}}}
			}

			out, err := m.Pack()
			if err == nil {
				_, _ = server.WriteTo(out, from)
			}
		}
	}()

	at := server.LocalAddr().String()

	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", at)
	}}
}

func TestProxy_plainHTTP(t *testing.T) {
	t.Parallel()

	var seen http.Header

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %s %s", r.Method, r.Host, body)
	}))
	t.Cleanup(server.Close)
	at := hostPort(t, server)
	s := open(t, Config{}, allowing(at), at)
	request, _ := http.NewRequest(http.MethodPost, server.URL+"/x", strings.NewReader("body"))
	request.Header.Set("Proxy-Authorization", "Basic eA==")
	res, err := s.client().Do(request)
	require.NoError(t, err)

	body, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()

	require.Equal(t, "POST "+at+" body", string(body))
	require.Empty(t, seen.Get("Proxy-Authorization"))
	require.Empty(t, seen.Get("X-Forwarded-For"), "where a command runs stays private")

	entries := s.Close()
	require.Len(t, entries, 1)
	require.Equal(t, domain.ConnectionAllowed, entries[0].Decision)
	require.Equal(t, "127.0.0.1", entries[0].Host)
	require.Equal(t, 1, entries[0].Count)
	require.Greater(t, entries[0].BytesSent, int64(100))
	require.Greater(t, entries[0].BytesReceived, int64(100))
}

func TestProxy_CONNECT(t *testing.T) {
	t.Parallel()

	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secret") }))
	t.Cleanup(server.Close)
	at := hostPort(t, server)
	_, port, _ := net.SplitHostPort(at)
	s := open(t, Config{Resolver: resolver(t, "127.0.0.1")}, allowing("mirror.test:"+port), "mirror.test")
	res, err := s.client().Get("https://mirror.test:" + port + "/")
	require.NoError(t, err)

	body, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()

	require.Equal(t, "secret", string(body))
	require.Equal(t, "mirror.test", s.entry("mirror.test").Host)
}

func TestProxy_SOCKS5(t *testing.T) {
	t.Parallel()
	at := hostPort(t, page(t, "by socks"))
	_, port, _ := net.SplitHostPort(at)
	s := open(t, Config{Resolver: resolver(t, "127.0.0.1")}, allowing("mirror.test:"+port, at), "mirror.test", at)
	dialer, err := proxy.SOCKS5("tcp", s.addr, nil, nil)
	require.NoError(t, err)

	for _, to := range []string{"mirror.test:" + port, at, "[::ffff:127.0.0.1]:" + port} {
		conn, err := dialer.Dial("tcp", to)
		require.NoError(t, err, to)

		_, _ = io.WriteString(conn, "GET / HTTP/1.0\r\nHost: x\r\n\r\n")
		got, _ := io.ReadAll(conn)
		require.Contains(t, string(got), "by socks")

		_ = conn.Close()
	}

	_, err = dialer.Dial("tcp", "other.test:443")
	require.ErrorContains(t, err, "connection not allowed by ruleset")
	require.Equal(t, domain.NoNetworkRule, s.entry("other.test").Reason)

	for name, bytes := range map[string]string{
		"bind":              "\x05\x01\x00\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50",
		"unknown address":   "\x05\x01\x00\x05\x01\x00\x09\x7f\x00\x00\x01\x00\x50",
		"port 0":            "\x05\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x00",
		"no name":           "\x05\x01\x00\x05\x01\x00\x03\x00\x00\x50",
		"password demanded": "\x05\x01\x02",
	} {
		conn := s.dial()
		_, _ = io.WriteString(conn, bytes)
		got, err := io.ReadAll(conn)
		require.NoError(t, err, name)
		require.NotEmpty(t, got, name)
		require.NotEqual(t, byte(socksDone), got[len(got)-1]+got[1]+got[min(3, len(got)-1)], name)
	}
}

func TestProxy_refusalsByRule(t *testing.T) {
	t.Parallel()
	at := hostPort(t, page(t, "never"))
	s := open(t, Config{}, allowing("*.example.org"), at)
	res, err := s.client().Get("http://" + at + "/")
	require.NoError(t, err)

	body, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	require.Equal(t, http.StatusForbidden, res.StatusCode)
	require.Contains(t, string(body), domain.NoNetworkRule)

	for _, to := range []string{"example.org:443", "a.example.org:8443", "a.example.org:25"} {
		_, _, status := s.connect(to)
		require.Contains(t, status, "403", to)
	}

	require.Equal(t, domain.ConnectionRefused, s.entry("a.example.org").Decision)
	require.Equal(t, domain.NoNetworkRule, s.entry("example.org").Reason)
}

// A port that no rule speaks of and that public mode does not have.
func TestProxy_refusedPort(t *testing.T) {
	t.Parallel()

	s := open(t, Config{}, domain.NewNetworkPolicy(domain.NetworkPublic, nil))
	for _, to := range []string{
		"93.184.215.14:25", "example.org:53", "example.org:0", "example.org:99999", "example.org",
		"example.org:http",
	} {
		_, _, status := s.connect(to)
		require.Regexp(t, "^40[03]", status, to)
	}
}

// Addresses that are not public are refused in every notation, by every protocol.
func TestProxy_addressesThatAreNotPublic(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Resolver: resolver(t, "127.0.0.1")}, domain.NewNetworkPolicy(domain.NetworkPublic, []domain.PermissionRule{
		{
			Tool:     domain.NetworkTool,
			Pattern:  "127.0.0.1",
			Decision: domain.PermissionAllow,
		}, {Tool: domain.NetworkTool, Decision: domain.PermissionAllow},
	}))
	socks, err := proxy.SOCKS5("tcp", s.addr, nil, nil)
	require.NoError(t, err)

	for _, host := range []string{
		"127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0x7f.0.0.1", "127.0.0.1.", "１２７.0.0.1", "localhost",
		"localhost.", "LOCALHOST",
		"0.0.0.0", "0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "169.254.170.2",
		"168.63.129.16", "192.0.0.192",
		"[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
		"[fd00:ec2::254]", "[fe80::1]",
		"[fe80::1%lo]", "224.0.0.1", "255.255.255.255", "metadata.google.internal", "rebound.test",
	} {
		to := host + ":443"
		_, _, status := s.connect(to)
		require.Regexp(t, "^40[03]", status, to)

		res, err := s.client().Get("http://" + host + "/")
		if err == nil {
			_ = res.Body.Close()
			require.Contains(t, []int{400, 403}, res.StatusCode, host)
		}

		_, err = socks.Dial("tcp", to)
		require.Error(t, err, to)
	}

	for _, c := range s.Connections() {
		require.Equal(t, domain.ConnectionRefused, c.Decision, c)
		require.Zero(t, c.BytesSent+c.BytesReceived, c)
	}
}

// A name that is public when it is first looked up and the loopback afterwards gains
// nothing: the address is judged when it is connected to.
func TestProxy_DNSRebinding(t *testing.T) {
	t.Parallel()

	var reached atomic.Int32

	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(server.Close)
	_, port, _ := net.SplitHostPort(hostPort(t, server))

	s := open(t, Config{Resolver: resolver(t, "192.0.2.1", "127.0.0.1"), DialTimeout: time.Minute}, allowing("rebound.test:"+port))
	for range 6 {
		_, _, status := s.connect("rebound.test:" + port)
		require.Contains(t, status, "403")
	}

	require.Zero(t, reached.Load())
	require.Contains(t, s.entry("rebound.test").Reason, "not on the public Internet")
}

func TestProxy_aThousandConnectionsAtOnce(t *testing.T) {
	t.Parallel()
	at := hostPort(t, page(t, "one of many"))
	s := open(t, Config{PerCommand: 64}, allowing(at), at)

	var (
		all    sync.WaitGroup
		served atomic.Int32
	)

	for range 1000 {
		all.Go(func() {
			conn, err := net.Dial("tcp", s.addr)
			if err != nil {
				return
			}
			defer conn.Close()

			_, _ = fmt.Fprintf(conn, "GET http://%s/ HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", at, at)

			got, _ := io.ReadAll(conn)
			if strings.HasSuffix(string(got), "one of many") {
				served.Add(1)
			}
		})
	}

	all.Wait()
	require.EqualValues(t, 1000, served.Load(), "those without a place wait for one")
}

func TestProxy_boundOfAllCommands(t *testing.T) {
	t.Parallel()
	server := echo(t)
	guard, err := netguard.New([]string{server}, nil)
	require.NoError(t, err)

	p := New(Config{Guard: guard, Total: 2})
	first, second := openIn(t, p, allowing(server)), openIn(t, p, allowing(server))
	first.connect(server)
	first.connect(server)
	_, _, status := second.connect(server)
	require.Contains(t, status, "503")
	first.Close()

	_, _, status = second.connect(server)
	require.Contains(t, status, "200", "places are released with their command")
}

// echo returns a server that sends back what it gets, and its end after the other's.
func echo(t *testing.T) string {
	t.Helper()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })

	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}

			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()

	return listener.Addr().String()
}

func TestProxy_halfClosedTunnel(t *testing.T) {
	t.Parallel()
	server := echo(t)
	s := open(t, Config{}, allowing(server), server)
	conn, in, status := s.connect(server)
	require.Contains(t, status, "200")

	_, _ = io.WriteString(conn, "question")
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())

	got, err := io.ReadAll(in)
	require.NoError(t, err)
	require.Equal(t, "question", string(got))

	entry := s.entry("127.0.0.1")
	require.EqualValues(t, 8, entry.BytesSent)
	require.EqualValues(t, 8, entry.BytesReceived)
}

func TestCommand_Close_inTheMiddle(t *testing.T) {
	t.Parallel()

	gone := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)

		chunk := make([]byte, 64<<10)
		for r.Context().Err() == nil {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	at := hostPort(t, server)
	s := open(t, Config{}, allowing(at), at)
	conn, in, _ := s.connect(at)
	_, _ = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	_, err := io.CopyN(io.Discard, in, 1<<20)
	require.NoError(t, err)

	entries := s.Close()
	require.GreaterOrEqual(t, entries[0].BytesReceived, int64(1<<20))

	select {
	case <-gone:
	case <-time.After(time.Minute):
		require.Fail(t, "the server's end of the connection is still open")
	}

	_, err = io.Copy(io.Discard, in)
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
	}

	require.Error(t, err)
	_, err = net.Dial("tcp", s.addr)
	require.Error(t, err, "nothing listens any more")
}

func TestProxy_limitsOfTime(t *testing.T) {
	t.Parallel()
	server := echo(t)

	s := open(t, Config{Idle: time.Minute, HeaderTimeout: 200 * time.Millisecond}, allowing(server), server)
	for name, started := range map[string]string{
		"nothing sent": "", "half a header": "CONNECT x", "half a greeting": "\x05",
		"half a request": "\x05\x01\x00\x05",
	} {
		conn := s.dial()
		_, _ = io.WriteString(conn, started)
		_, err := io.Copy(io.Discard, conn)
		// Closed by the proxy: by a reset, when what was sent came too late to be read.
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, name)
	}
}

func TestProxy_idleTunnelIsClosed(t *testing.T) {
	t.Parallel()
	server := echo(t)

	// moved says how a tunnel with this limit ended while something moved; nil: not.
	moved := func(idle time.Duration) error {
		s := open(t, Config{Idle: idle, HeaderTimeout: time.Minute}, allowing(server), server)
		conn, in, status := s.connect(server)
		require.Contains(t, status, "200")
		require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Minute)))

		for range 5 {
			if _, err := io.WriteString(conn, "x"); err != nil {
				return err
			}

			if _, err := in.ReadByte(); err != nil {
				return err
			}
		}

		_, err := in.ReadByte()
		require.Error(t, err, "a tunnel on which nothing moves is closed")
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded)

		return nil
	}

	err := moved(3 * time.Second)
	for idle := 12 * time.Second; err != nil && idle < 4*time.Minute; idle *= 4 { // a busy machine paused for as long
		err = moved(idle)
	}

	require.NoError(t, err, "what moves stays")
}

func TestCommand_Connections_bounded(t *testing.T) {
	t.Parallel()

	s := open(t, Config{}, allowing())
	for i := range 3 * domain.MaxConnections {
		_, _, status := s.connect("host" + strconv.Itoa(i) + ".test:443")
		require.Contains(t, status, "403")
	}

	entries := s.Connections()
	require.Len(t, entries, domain.MaxConnections+1)
	require.Equal(
		t,
		domain.Connection{Host: "*", Decision: domain.ConnectionRefused, Count: 2 * domain.MaxConnections},
		entries[domain.MaxConnections],
	)
}

func TestProxy_rulesThatCannotBeRead(t *testing.T) {
	t.Parallel()

	guard, err := netguard.New(nil, nil)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	c := New(Config{Guard: guard}).Open(func(context.Context) (domain.NetworkPolicy, error) {
		return domain.NetworkPolicy{}, io.ErrUnexpectedEOF
	})
	c.Serve(listener)
	t.Cleanup(func() { c.Close() })
	_, _, status := env{c, t, listener.Addr().String()}.connect("example.org:443")
	require.Contains(t, status, "403")
}

// A rule that is added while a command runs counts without a restart of it.
func TestProxy_rulesOfTheMoment(t *testing.T) {
	t.Parallel()
	server := echo(t)
	guard, err := netguard.New([]string{server}, nil)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	var allowed atomic.Bool

	c := New(Config{Guard: guard}).Open(func(context.Context) (domain.NetworkPolicy, error) {
		if allowed.Load() {
			return allowing(server), nil
		}

		return allowing(), nil
	})
	c.Serve(listener)
	t.Cleanup(func() { c.Close() })
	s := env{c, t, listener.Addr().String()}
	_, _, status := s.connect(server)
	require.Contains(t, status, "403")
	allowed.Store(true)
	require.Eventually(t, func() bool {
		_, _, status := s.connect(server)
		return strings.HasPrefix(status, "200")
	}, time.Minute, 100*time.Millisecond)
}

// Open connections end when a change of the policy no longer allows them, whatever
// protocol they came by; others stay.
func TestProxy_closesWhatIsNoLongerAllowed(t *testing.T) {
	t.Parallel()

	hold := make(chan struct{})
	stream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first\n")
		_ = http.NewResponseController(w).Flush()

		<-hold
	}))
	t.Cleanup(stream.Close)
	t.Cleanup(func() { close(hold) })

	withdrawn, other := echo(t), echo(t)
	at := hostPort(t, stream)

	for name, changed := range map[string]domain.NetworkPolicy{
		"deny": domain.NewNetworkPolicy(domain.NetworkRules, []domain.PermissionRule{
			{Tool: domain.NetworkTool, Pattern: withdrawn, Decision: domain.PermissionDeny},
			{Tool: domain.NetworkTool, Pattern: at, Decision: domain.PermissionDeny},
			{Tool: domain.NetworkTool, Pattern: withdrawn, Decision: domain.PermissionAllow},
			{Tool: domain.NetworkTool, Pattern: other, Decision: domain.PermissionAllow},
		}),
		"withdrawn rule": allowing(other),
		"none":           {}, // network none, and planning
	} {
		t.Run(name, func(t *testing.T) {
			guard, err := netguard.New([]string{withdrawn, other, at}, nil)
			require.NoError(t, err)
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)

			var policy atomic.Pointer[domain.NetworkPolicy]

			before := allowing(withdrawn, other, at)
			policy.Store(&before)

			c := New(Config{Guard: guard}).Open(func(context.Context) (domain.NetworkPolicy, error) { return *policy.Load(), nil })
			c.Serve(listener)
			t.Cleanup(func() { c.Close() })

			s := env{c, t, listener.Addr().String()}
			_, tunnel, status := s.connect(withdrawn)
			require.Contains(t, status, "200")

			dialer, err := proxy.SOCKS5("tcp", s.addr, nil, nil)
			require.NoError(t, err)
			socks, err := dialer.Dial("tcp", withdrawn)
			require.NoError(t, err)
			t.Cleanup(func() { _ = socks.Close() })
			require.NoError(t, socks.SetDeadline(time.Now().Add(2*time.Minute)))

			stays, in, status := s.connect(other)
			require.Contains(t, status, "200")

			response, err := s.client().Get(stream.URL)
			require.NoError(t, err)
			t.Cleanup(func() { _ = response.Body.Close() })

			policy.Store(&changed)

			for what, open := range map[string]io.Reader{"CONNECT": tunnel, "SOCKS": socks, "HTTP": response.Body} {
				_, err := io.Copy(io.Discard, open)
				require.NotErrorIs(t, err, os.ErrDeadlineExceeded, what)
			}

			_, err = io.WriteString(stays, "x")
			if changed.Mode.Open() {
				require.NoError(t, err)
				got, err := in.ReadByte()
				require.NoError(t, err, "another domain's tunnel stays")
				require.Equal(t, byte('x'), got)
			} else {
				_, err = in.ReadByte()
				require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
				require.Error(t, err)
			}
		})
	}
}

func TestProxy_notAProxyRequest(t *testing.T) {
	t.Parallel()

	s := open(t, Config{}, allowing("example.org"))
	for _, request := range []string{
		"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "GET https://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n",
		"GET ftp://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n", "garbage\r\n\r\n",
	} {
		conn := s.dial()
		_, _ = io.WriteString(conn, request)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err, request)
		require.Equal(t, http.StatusBadRequest, response.StatusCode, request)
	}

	for _, other := range []string{"\x04\x01\x00\x50\x01\x01\x01\x01\x00", "\x16\x03\x01\x02\x00"} {
		conn := s.dial()
		_, _ = io.WriteString(conn, other)
		got, _ := io.ReadAll(conn)
		require.Empty(t, got, "%q", other)
	}
}

func FuzzSOCKSRequest(f *testing.F) {
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x03\x01a\x00\x50"))
	f.Fuzz(func(t *testing.T, data []byte) {
		host, port, _, err := socksRequest(struct {
			io.Reader
			io.Writer
		}{strings.NewReader(string(data)), io.Discard})
		if err == nil && (host == "" || port == 0) {
			t.Fatal("a request without a place was taken")
		}
	})
}
