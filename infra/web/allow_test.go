package web

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatAnOperatorAllows(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	dns := &names{answers: map[string][][4]byte{
		"wiki.corp.test": {{127, 0, 0, 1}}, "evil-corp.test": {{127, 0, 0, 1}}, "other.test": {{127, 0, 0, 1}},
	}}

	resolver := dns.resolver(t)
	for _, test := range []struct {
		allow []string
		own   []string
		host  string
		want  bool
	}{
		{nil, nil, "127.0.0.1", false},
		{[]string{"127.0.0.1"}, nil, "127.0.0.1", true},
		{[]string{" 127.0.0.0/8 ", ""}, nil, "127.0.0.1", true},
		{[]string{"127.0.0.1:" + s.port}, nil, "127.0.0.1", true},
		{[]string{"127.0.0.1:1"}, nil, "127.0.0.1", false},
		{[]string{"10.0.0.0/8"}, nil, "127.0.0.1", false},
		{[]string{"127.0.0.1"}, nil, "[::ffff:127.0.0.1]", true},
		{[]string{"WIKI.corp.test"}, nil, "wiki.corp.test", true},
		{[]string{"wiki.corp.test"}, nil, "Wiki.Corp.Test.", true},
		{[]string{"wiki.corp.test:" + s.port}, nil, "wiki.corp.test", true},
		{[]string{"wiki.corp.test:81"}, nil, "wiki.corp.test", false},
		{[]string{"*.corp.test"}, nil, "wiki.corp.test", true},
		{[]string{"*.corp.test"}, nil, "evil-corp.test", false},
		{[]string{"wiki.corp.test"}, nil, "other.test", false},
		// The service itself, by whatever address, only when its port is named.
		{[]string{"127.0.0.0/8"}, []string{"127.0.0.1:" + s.port}, "127.0.0.1", false},
		{[]string{"wiki.corp.test"}, []string{"0.0.0.0:" + s.port}, "wiki.corp.test", false},
		{[]string{"127.0.0.1:" + s.port}, []string{"127.0.0.1:" + s.port}, "127.0.0.1", true},
	} {
		c := newClient(t, Config{Allow: test.allow, Own: test.own, Resolver: resolver, Timeout: time.Minute})

		page, err := c.Fetch(t.Context(), "http://"+test.host+":"+s.port+"/", nil)
		if test.want {
			require.NoError(t, err, "%v", test)
			require.Equal(t, "ok", page.Text)
		} else {
			refusal(t, err)
		}
	}
}

func TestAnExceptionForAPath(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/pages/away" {
			http.Redirect(w, r, "/control/requests", http.StatusFound)
			return
		}

		fmt.Fprint(w, r.URL.Path)
	})
	dns := &names{answers: map[string][][4]byte{"demo.test": {{127, 0, 0, 1}}}}

	resolver := dns.resolver(t)
	for _, allowed := range []string{"127.0.0.1:" + s.port, "demo.test:" + s.port} {
		c := newClient(t, Config{Allow: []string{allowed + "/pages/"}, Own: []string{"0.0.0.0:" + s.port}, Resolver: resolver})
		page, err := c.Fetch(t.Context(), "http://"+allowed+"/pages/one?x=1", nil)
		require.NoError(t, err)
		require.Equal(t, "/pages/one", page.Text)

		before := s.hits.Load()

		for _, path := range []string{
			"", "/", "/pages", "/Pages/one", "/control/requests", "/pages/../control/requests", "/pages/%2e%2e/control/requests",
			"/pages/..%2fcontrol",
			"/pages//../control", "//pages/one",
		} {
			_, err = c.Fetch(t.Context(), "http://"+allowed+path, nil)
			refusal(t, err)
		}

		_, err = c.Fetch(t.Context(), "http://localhost:"+s.port+"/control/requests", nil)
		refusal(t, err)
		require.Equal(t, before, s.hits.Load())
		_, err = c.Fetch(t.Context(), "http://"+allowed+"/pages/away", nil)
		refusal(t, err)
		require.Equal(t, before+1, s.hits.Load())
	}
}

func TestAllow_invalid(t *testing.T) {
	t.Parallel()

	for _, entry := range []string{
		"http://example.com", "example.com/path", "example.com:80/../x", "127.0.0.1/pages/",
		"exa mple", "10.0.0.0/99", "host:port", "host:0", "host:70000", "*", "*.", "[::1",
	} {
		_, err := New(Config{Allow: []string{entry}})
		require.ErrorContains(t, err, strings.TrimSpace(entry))
	}

	_, err := New(Config{Own: []string{"8020"}})
	require.Error(t, err)
}

func TestClient_guarded(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("long ", 1000))
	})
	outside := newClient(t, Config{}).HTTP()
	request := func(method string) *http.Request {
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL, nil)
		require.NoError(t, err)

		return r
	}
	res, err := outside.Do(request(http.MethodGet)) //nolint:bodyclose // there is none
	require.Nil(t, res)
	require.ErrorContains(t, err, "not on the public Internet")
	require.Zero(t, s.hits.Load())

	inside := newClient(t, Config{Allow: []string{"127.0.0.1"}, MaxBody: 1000}).HTTP()
	res, err = inside.Do(request(http.MethodPost)) //nolint:bodyclose // there is none
	require.Nil(t, res)
	require.ErrorContains(t, err, "only GET")
	require.Zero(t, s.hits.Load())

	res, err = inside.Do(request(http.MethodGet))
	require.NoError(t, err)

	defer res.Body.Close()

	read, err := io.ReadAll(res.Body)
	require.ErrorContains(t, err, "too long")
	require.LessOrEqual(t, len(read), 1001)
}
