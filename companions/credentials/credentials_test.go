package credentials

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/companions/edge"
)

var ann = netip.MustParseAddr("198.51.100.1")

func TestChecker_Check(t *testing.T) {
	t.Parallel()

	var asked, status atomic.Int64
	status.Store(http.StatusOK)

	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, `{"id":"ann","username":"ann","administrator":true,"scopes":["skills:write"]}`)
	}))
	defer agent.Close()

	c := New(agent.URL+"/", "a-key-of-a-machine")
	now := time.Now()
	c.now = func() time.Time { return now }

	for range 3 {
		caller, err := c.Check(t.Context(), ann, "token")
		require.NoError(t, err)
		require.Equal(t, "ann", caller.ID)
		require.NoError(t, Require(caller, SkillsWrite))
		require.Error(t, Require(caller, "chat"))
		require.False(t, caller.Administers(), "the token lacks the scope admin")
	}

	require.EqualValues(t, 1, asked.Load(), "remembered")

	for code, want := range map[int]int{401: 401, 403: 403, 429: 429, 500: 503, 302: 503, 200: 200} {
		now = now.Add(rememberFor)

		status.Store(int64(code))

		_, err := c.Check(t.Context(), ann, "token")
		if want == 200 {
			require.NoError(t, err)
			continue
		}

		refused, ok := errors.AsType[*edge.Problem](err)
		require.True(t, ok, err)
		require.Equal(t, want, refused.Status, code)
	}

	before := asked.Load()

	for _, token := range []string{"", "a b", "a\nb", "ä", string(make([]byte, maxToken+1))} {
		_, err := c.Check(t.Context(), ann, token)
		require.Error(t, err, token)
	}

	machine, err := c.Check(t.Context(), ann, "a-key-of-a-machine")
	require.NoError(t, err)
	require.True(t, machine.Administers())
	require.Equal(t, before, asked.Load())

	agent.Close()

	_, err = c.Check(t.Context(), ann, "another")
	require.ErrorContains(t, err, "does not answer")
}

// What ends at the agent ends at the registry, git hosting and the gateway within the time
// for which an answer is remembered.
func TestChecker_Check_rightsThatEnd(t *testing.T) {
	t.Parallel()

	const owner = `{"id":"ann","username":"ann","administrator":true}`

	holds := func(caller Caller, err error) bool {
		return err == nil && caller.Administers() && Require(caller, SkillsWrite) == nil
	}

	for name, then := range map[string]struct {
		status int
		body   string
	}{
		"account disabled or deleted": {http.StatusUnauthorized, `{}`},
		"key refused":                 {http.StatusForbidden, `{}`},
		"no longer administrator":     {http.StatusOK, `{"id":"ann","username":"ann"}`},
		"fewer scopes":                {http.StatusOK, `{"id":"ann","username":"ann","administrator":true,"scopes":["chat"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var ended atomic.Bool

			agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if !ended.Load() {
					_, _ = io.WriteString(w, owner)
					return
				}

				w.WriteHeader(then.status)
				_, _ = io.WriteString(w, then.body)
			}))
			t.Cleanup(agent.Close)

			c := New(agent.URL, "")
			now := time.Now()
			c.now = func() time.Time { return now }

			require.True(t, holds(c.Check(t.Context(), ann, "token")))
			ended.Store(true)

			now = now.Add(rememberFor)
			require.False(t, holds(c.Check(t.Context(), ann, "token")))
		})
	}
}

func TestChecker_remembersNoMoreThanItsBound(t *testing.T) {
	t.Parallel()

	c := New("", "")
	now := time.Now()

	c.now = func() time.Time { return now }
	for i := range 2 * remembered {
		c.remember([32]byte{byte(i), byte(i >> 8)}, Caller{ID: "x"})
	}

	require.Len(t, c.known, remembered)

	now = now.Add(rememberFor)

	c.remember([32]byte{31: 1}, Caller{ID: "y"})
	require.Len(t, c.known, 1)
}

// Wrong tokens of one client keep no other one out, and are not passed on to the agent.
func TestChecker_Check_guesses(t *testing.T) {
	t.Parallel()

	var asked atomic.Int64

	from := make(chan string, 1)

	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)

		if r.Header.Get("Authorization") != "Bearer right" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}

		from <- r.Header.Get("X-Forwarded-For")

		_, _ = io.WriteString(w, `{"id":"ann"}`)
	}))
	defer agent.Close()

	c := New(agent.URL, "a-key-of-a-machine")
	bob := netip.MustParseAddr("198.51.100.2")

	for i := range 10 * guesses {
		_, err := c.Check(t.Context(), bob, "wrong-"+strconv.Itoa(i))
		require.Error(t, err)
	}

	require.EqualValues(t, guesses, asked.Load())

	_, err := c.Check(t.Context(), bob, "right")
	refused, ok := errors.AsType[*edge.Problem](err)
	require.True(t, ok, err)
	require.Equal(t, "too_many_guesses", refused.Code)
	require.Positive(t, refused.RetryAfter)

	_, err = c.Check(t.Context(), bob, "a-key-of-a-machine")
	require.NoError(t, err)
	_, err = c.Check(t.Context(), ann, "right")
	require.NoError(t, err)
	require.Equal(t, ann.String(), <-from)
}
