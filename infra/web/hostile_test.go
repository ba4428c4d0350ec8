package web

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"everloop/activities/tools"
	"everloop/domain"
)

// site is a web server on loopback that counts what reaches it.
type site struct {
	*httptest.Server
	hits atomic.Int64
	port string
}

// newSite serves on a listener, or on a port of loopback of its own.
func newSite(t testing.TB, handler http.HandlerFunc, on ...net.Listener) *site {
	t.Helper()

	s := &site{}

	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.hits.Add(1)
		handler(w, r)
	}))
	if len(on) > 0 {
		_ = s.Listener.Close()
		s.Listener = on[0]
	}

	s.Start()
	_, s.port, _ = net.SplitHostPort(s.Listener.Addr().String())

	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})

	return s
}

func newClient(t testing.TB, cfg Config) *Client {
	t.Helper()

	cfg.Timeout = cmp.Or(cfg.Timeout, 5*time.Minute) // for a slow machine
	cfg.HeaderTimeout = cmp.Or(cfg.HeaderTimeout, 5*time.Minute)
	c, err := New(cfg)
	require.NoError(t, err)

	return c
}

// fetch gets a page of a site that is allowed.
func fetch(t testing.TB, s *site, path string, cfg Config) (tools.WebPage, error) {
	t.Helper()

	cfg.Allow = append(cfg.Allow, s.Listener.Addr().String())

	return newClient(t, cfg).Fetch(t.Context(), s.URL+path, nil)
}

// refusal asserts that the model may see the error, and returns its text.
func refusal(t testing.TB, err error) string {
	t.Helper()

	var e *domain.Error
	require.ErrorAs(t, err, &e)
	require.NotContains(t, []domain.Kind{domain.Internal, domain.Unavailable}, e.Kind)

	return e.Message
}

func TestFetch_ownAddresses(t *testing.T) {
	t.Parallel()
	victim := newSite(t, func(http.ResponseWriter, *http.Request) {})

	c := newClient(t, Config{Timeout: time.Minute})
	for _, host := range []string{
		"127.0.0.1", "localhost", "LOCALHOST", "localhost.", "[::1]", "[::]", "0.0.0.0", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
		"[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "127.1", "127.0.1", "0", "0x7f.1", "0x7f000001", "2130706433",
		"017700000001", "0177.0.0.1", "127.0.0.1.", "１２７.0.0.1", "127。0。0。1", "①②⑦.0.0.1", "%31%32%37.0.0.1",
	} {
		_, err := c.Fetch(t.Context(), "http://"+host+":"+victim.port+"/", nil)
		require.Error(t, err, host)
		refusal(t, err)
	}

	require.Zero(t, victim.hits.Load(), "a connection reached the server")
}

func TestFetch_privateNetworksAndMetadataServices(t *testing.T) {
	t.Parallel()

	c := newClient(t, Config{Timeout: time.Minute})
	for _, host := range []string{
		"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.100.100.200", "169.254.169.254", "168.63.129.16",
		"192.0.0.192", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "[fe80::1]", "[fe80::1%25lo]", "[fc00::1]",
		"[fd00:ec2::254]",
		"[ff02::1]", "[2001::1]", "[2001:db8::1]", "[64:ff9b::a00:1]", "[64:ff9b:1::1]", "[4000::1]", "[fec0::1]",
	} {
		_, err := c.Fetch(t.Context(), "http://"+host+"/latest/meta-data/", nil)
		require.Contains(t, refusal(t, err), "is not on the public Internet", host)
	}
}

func TestFetch_otherSchemesAndCredentials(t *testing.T) {
	t.Parallel()

	c := newClient(t, Config{})
	for _, raw := range []string{
		"file:///etc/passwd", "ftp://example.com/", "gopher://127.0.0.1:6379/_INFO", "javascript:alert(1)", "data:text/html,x",
		"example.com",
		"http://", "http:///path", "https://user@example.com/", "https://user:secret-71@example.com/", "http://example.com:0/",
		"http://example.com:99999/",
		"http://exa mple.com/", "http:\n//example.com", "//example.com/", "http://[::1", strings.Repeat("https://example.com/", 1000),
	} {
		_, err := c.Fetch(t.Context(), raw, nil)
		require.NotContains(t, refusal(t, err), "secret-71", raw)
	}
}

// names is a DNS server that returns the configured answers, each once, the
// last one repeatedly.
type names struct {
	mu      sync.Mutex
	answers map[string][][4]byte
	asked   map[string]int
}

func (n *names) resolver(t testing.TB) *net.Resolver {
	t.Helper()

	n.asked = map[string]int{}
	server, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })

	go func() {
		buffer := make([]byte, 1500)
		for {
			size, from, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}

			if reply, err := n.reply(buffer[:size]); err == nil {
				_, _ = server.WriteTo(reply, from)
			}
		}
	}()

	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

func (n *names) reply(query []byte) ([]byte, error) {
	var parser dnsmessage.Parser

	header, err := parser.Start(query)
	if err != nil {
		return nil, err
	}

	question, err := parser.Question()
	if err != nil {
		return nil, err
	}

	message := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: header.ID, Response: true, Authoritative: true},
		Questions: []dnsmessage.Question{question},
	}
	name := strings.ToLower(strings.TrimSuffix(question.Name.String(), "."))

	n.mu.Lock()
	defer n.mu.Unlock()

	answers, known := n.answers[name]
	switch {
	case !known:
		message.RCode = dnsmessage.RCodeNameError
	case question.Type == dnsmessage.TypeA:
		message.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: question.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET},
			Body:   &dnsmessage.AResource{A: answers[min(n.asked[name], len(answers)-1)]},
		}}
		n.asked[name]++
	}

	return message.Pack()
}

// samePort listens on one port of two addresses. Others may hold a port on one of
// them: another is tried then.
func samePort(t *testing.T, one, other string) (net.Listener, net.Listener) {
	t.Helper()

	var config net.ListenConfig
	for range 100 {
		first, err := config.Listen(t.Context(), "tcp", one+":0")
		require.NoError(t, err)
		_, port, err := net.SplitHostPort(first.Addr().String())
		require.NoError(t, err)

		second, err := config.Listen(t.Context(), "tcp", other+":"+port)
		if err == nil {
			return first, second
		}

		require.NoError(t, first.Close())
	}

	t.Fatal("no port is free on both addresses")

	return nil, nil
}

func TestFetch_dnsRebinding(t *testing.T) {
	t.Parallel()
	outside, inside := samePort(t, "127.0.0.2", "127.0.0.1")
	good := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/again" {
			http.Redirect(w, r, "http://flip.test:"+r.URL.Query().Get("port")+"/secret", http.StatusFound)
			return
		}

		fmt.Fprint(w, "good")
	}, outside)
	victim := newSite(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "secret") }, inside)
	public, private := [4]byte{127, 0, 0, 2}, [4]byte{127, 0, 0, 1}
	dns := &names{answers: map[string][][4]byte{
		"flip.test": {public, private}, "first.test": {public}, "inside.test": {private},
	}}
	// 127.0.0.2 stands for the public Internet here.
	c := newClient(t, Config{Allow: []string{"127.0.0.2"}, Resolver: dns.resolver(t), Timeout: time.Minute})
	at := func(host, path string) string { return "http://" + host + ":" + good.port + path }

	_, err := c.Fetch(t.Context(), at("inside.test", "/"), nil)
	require.Contains(t, refusal(t, err), "inside.test is not on the public Internet")
	page, err := c.Fetch(t.Context(), at("flip.test", "/"), nil)
	require.NoError(t, err)
	require.Equal(t, "good", page.Text)
	_, err = c.Fetch(t.Context(), at("flip.test", "/"), nil)
	require.Contains(t, refusal(t, err), "flip.test is not on the public Internet", "the second answer is another address")
	_, err = c.Fetch(t.Context(), at("first.test", "/again?port="+good.port), nil)
	require.Contains(t, refusal(t, err), "flip.test is not on the public Internet", "a redirect is looked at like a URL")
	_, err = c.Fetch(t.Context(), at("missing.test", "/"), nil)
	require.Contains(t, refusal(t, err), "there is no host named missing.test")
	require.Zero(t, victim.hits.Load())
	require.NotContains(t, refusal(t, err), "127.0.0", "inner addresses are not shown")
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	inner := newSite(t, func(http.ResponseWriter, *http.Request) {})

	var headers http.Header

	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		var left int
		switch _, err := fmt.Sscanf(r.URL.Path, "/hops/%d", &left); {
		case err == nil && left > 0:
			http.SetCookie(w, &http.Cookie{Name: "track", Value: "me"})
			http.Redirect(w, r, fmt.Sprintf("/hops/%d", left-1), http.StatusFound)
		case r.URL.Path == "/loop":
			http.Redirect(w, r, "/loop", http.StatusMovedPermanently)
		case r.URL.Path == "/inside":
			http.Redirect(w, r, inner.URL, http.StatusTemporaryRedirect)
		case r.URL.Path == "/file":
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(http.StatusFound)
		case r.URL.Path == "/password":
			w.Header().Set("Location", "http://user:pass@"+r.Host+"/hops/0")
			w.WriteHeader(http.StatusFound)
		default:
			headers = r.Header

			fmt.Fprint(w, "here")
		}
	})
	page, err := fetch(t, s, "/hops/5?key=hidden", Config{})
	require.NoError(t, err)
	require.Equal(t, s.URL+"/hops/0", page.URL)
	require.Equal(t, "here", page.Text)
	require.Empty(t, headers.Get("Cookie"), "cookies are not kept")
	require.Empty(t, headers.Get("Referer"))

	before := s.hits.Load()
	_, err = fetch(t, s, "/loop", Config{})
	require.Contains(t, refusal(t, err), "redirects more than 5 times")
	require.Equal(t, before+6, s.hits.Load())

	for path, words := range map[string]string{"/inside": "not on the public Internet", "/file": "only http", "/password": "password"} {
		_, err = fetch(t, s, path, Config{})
		require.Contains(t, refusal(t, err), words)
	}

	require.Zero(t, inner.hits.Load())
}

func TestFetch_redirectToAnotherHost(t *testing.T) {
	t.Parallel()

	other := newSite(t, func(http.ResponseWriter, *http.Request) {})
	target := ""
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/page" {
			fmt.Fprint(w, "here")
			return
		}

		http.Redirect(w, r, target, http.StatusFound)
	})
	c := newClient(t, Config{Allow: []string{"127.0.0.1", "localhost"}})

	for _, target = range []string{other.URL + "/?d=1", "http://localhost:" + s.port + "/page", "https://example.org/", "//example.org/x"} {
		_, err := c.Fetch(t.Context(), s.URL+"/away", nil)
		text := refusal(t, err)
		require.Contains(t, text, "redirects to another host", target)
		require.Contains(t, text, strings.TrimPrefix(target, "//"), "the model reads the new address")
	}

	require.Zero(t, other.hits.Load())

	target = "/page"
	page, err := c.Fetch(t.Context(), s.URL+"/away", func(next string) bool { return next == s.URL+"/page" })
	require.NoError(t, err)
	require.Equal(t, "here", page.Text)

	before := s.hits.Load()
	_, err = c.Fetch(t.Context(), s.URL+"/away", func(string) bool { return false })
	require.Contains(t, refusal(t, err), "that a permission rule is about")
	require.Equal(t, before+1, s.hits.Load(), "a rejected redirect is not requested")
}

func TestClient_Destination(t *testing.T) {
	t.Parallel()

	c := newClient(t, Config{Allow: []string{"wiki.corp", "127.0.0.1:8080/pages/", "10.1.0.0/16"}})

	for raw, want := range map[string]string{
		"https://Example.org./x": "example.org:443", "http://example.org:8080": "example.org:8080", "http://wiki.corp/": "wiki.corp:80",
		"http://127.0.0.1:8080/pages/a": "127.0.0.1:8080", "http://10.1.2.3/": "10.1.2.3:80",
		"https://[2606:4700::1111]/": "2606:4700::1111:443",
	} {
		host, port, err := c.Destination(raw)
		require.NoError(t, err, raw)
		require.Equal(t, want, fmt.Sprintf("%s:%d", host, port))
	}

	for _, raw := range []string{
		"http://127.0.0.1/", "http://127.0.0.1:8080/control", "http://localhost/", "http://a.localhost:8080/", "http://10.2.0.1/",
		"http://169.254.169.254/latest/", "http://[::1]/", "http://metadata.google.internal/", "http://printer/", "http://nas.local/",
		"ftp://example.org/", "http://user:pass@example.org/", "http://0x7f.1/",
	} {
		_, _, err := c.Destination(raw)
		require.Error(t, err, raw)
		refusal(t, err)
	}
}

func TestFetch_redirectFromHTTPSToHTTP(t *testing.T) {
	t.Parallel()
	plain := newSite(t, func(http.ResponseWriter, *http.Request) {})
	secure := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	t.Cleanup(secure.Close)
	c := newClient(t, Config{Allow: []string{"127.0.0.1"}})
	_, err := c.Fetch(t.Context(), secure.URL, nil)
	require.Contains(t, refusal(t, err), "has no valid certificate")

	c.http.Transport.(bounded).next.(*http.Transport).TLSClientConfig = secure.Client().Transport.(*http.Transport).TLSClientConfig
	_, err = c.Fetch(t.Context(), secure.URL, nil)
	require.Contains(t, refusal(t, err), "from https to http")
	require.Zero(t, plain.hits.Load())
}

func TestSlowServersAreGivenUp(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/silent" {
			<-r.Context().Done()
			return
		}

		w.Header().Set("Content-Type", "text/plain")

		for r.Context().Err() == nil { // one byte at a time, without end
			fmt.Fprint(w, "x")
			_ = http.NewResponseController(w).Flush()

			select {
			case <-time.After(20 * time.Millisecond):
			case <-r.Context().Done():
			}
		}
	})
	_, err := fetch(t, s, "/drip", Config{Timeout: 2 * time.Second})
	require.Contains(t, refusal(t, err), "took longer than 2s")
	_, err = fetch(t, s, "/silent", Config{Timeout: time.Hour, HeaderTimeout: 200 * time.Millisecond})
	require.Contains(t, refusal(t, err), "did not answer in time")

	// A connection that never says a word of HTTP, or drips its header.
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })

	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}

			go func() {
				defer conn.Close()

				_, _ = conn.Read(make([]byte, 4096))
				for _, c := range []byte("HTTP/1.1 200 OK\r\nX-Slow: " + strings.Repeat("a", 10_000)) {
					if _, err := conn.Write([]byte{c}); err != nil {
						return
					}

					time.Sleep(10 * time.Millisecond) //nolint:forbidigo // the pace of the server, nothing waits for it
				}
			}()
		}
	}()

	c := newClient(t, Config{Allow: []string{listener.Addr().String()}, Timeout: 2 * time.Second})
	_, err = c.Fetch(t.Context(), "http://"+listener.Addr().String(), nil)
	require.Contains(t, refusal(t, err), "took longer than")
}

func TestFetch_cancelled(t *testing.T) {
	t.Parallel()

	reached := make(chan struct{})
	s := newSite(t, func(_ http.ResponseWriter, r *http.Request) {
		close(reached)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")

	go func() {
		<-reached
		cancel(stopped)
	}()

	_, err := newClient(t, Config{Allow: []string{"127.0.0.1"}, Timeout: time.Hour, HeaderTimeout: time.Hour}).Fetch(ctx, s.URL, nil)
	require.ErrorIs(t, err, stopped)
}

// allocated runs fn and gives the bytes that were allocated in the meantime.
func allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)

	return after.TotalAlloc - before.TotalAlloc
}

// Not parallel: it counts what the whole process allocates.
func TestHugeAnswersAreNeverHeld(t *testing.T) {
	chunk := []byte(strings.Repeat("x", 64<<10))
	ended := make(chan string, 4)
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		defer func() { ended <- r.URL.Path }()

		var to io.Writer = w
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")

		switch r.URL.Path {
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")

			packed, _ := gzip.NewWriterLevel(w, gzip.BestCompression)
			defer packed.Close()

			to = packed
		case "/gigabyte":
			w.Header().Set("Content-Length", "1073741824")
		case "/page":
			w.Header().Set("Content-Type", "text/html")
		}

		for sent := 0; sent < 1<<30; sent += len(chunk) {
			if _, err := to.Write(chunk); err != nil {
				return
			}
		}
	})

	for _, path := range []string{"/bomb", "/gigabyte", "/chunks", "/page"} {
		var (
			page tools.WebPage
			err  error
		)

		used := allocated(func() { page, err = fetch(t, s, path, Config{}) })

		require.NoError(t, err, path)
		require.LessOrEqual(t, len(page.Text), DefaultMaxBody, path)
		require.NotEmpty(t, page.Cut, path)
		require.Less(t, used, uint64(300<<20), "%s: a gigabyte went through memory", path)

		select {
		case got := <-ended:
			require.Equal(t, path, got)
		case <-time.After(time.Minute):
			t.Fatalf("%s: the connection was not closed", path)
		}
	}
}

func TestAHugeHeaderIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 2000 {
			w.Header().Set(fmt.Sprintf("X-Header-%d", i), strings.Repeat("h", 1000))
		}
	})
	_, err := fetch(t, s, "/", Config{})
	require.Contains(t, refusal(t, err), "header of more than 256 KB")
}

func TestAnswersThatAreNoHTTP(t *testing.T) {
	t.Parallel()

	for name, said := range map[string]string{
		"nothing": "", "another protocol": "SSH-2.0-OpenSSH_9.9\r\n", "cut body": "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n" +
			"Content-Length: 100\r\n\r\nshort",
		"bad gzip":   "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
		"bad chunks": "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			require.NoError(t, err)
			t.Cleanup(func() { _ = listener.Close() })

			go func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}

					_, _ = conn.Read(make([]byte, 4096))
					_, _ = io.WriteString(conn, said)
					_ = conn.Close()
				}
			}()

			c := newClient(t, Config{Allow: []string{listener.Addr().String()}, Timeout: time.Minute})
			_, err = c.Fetch(t.Context(), "http://"+listener.Addr().String(), nil)
			require.Contains(t, refusal(t, err), "broke off or could not be understood")
		})
	}

	c := newClient(t, Config{Allow: []string{"127.0.0.1"}})
	_, err := c.Fetch(t.Context(), "http://127.0.0.1:1/", nil)
	require.Contains(t, refusal(t, err), "no connection to 127.0.0.1:1 could be made")
}
