package credentials

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/companions/edge"
)

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
		caller, err := c.Check(t.Context(), "token")
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

		_, err := c.Check(t.Context(), "token")
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
		_, err := c.Check(t.Context(), token)
		require.Error(t, err, token)
	}

	machine, err := c.Check(t.Context(), "a-key-of-a-machine")
	require.NoError(t, err)
	require.True(t, machine.Administers())
	require.Equal(t, before, asked.Load())

	agent.Close()

	_, err = c.Check(t.Context(), "another")
	require.ErrorContains(t, err, "does not answer")
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
