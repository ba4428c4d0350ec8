package history_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/chat"
	"everloop/domain/history"
)

func TestClaim(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		session chat.Session
		want    *domain.Error
	}{
		"idle":               {},
		"waiting for input":  {session: chat.Session{Questions: 2}},
		"running":            {session: chat.Session{Active: true}, want: chat.Busy()},
		"queued":             {session: chat.Session{Queued: 1}, want: chat.Busy()},
		"waiting and queued": {session: chat.Session{Queued: 1, Questions: 1}, want: chat.Busy()},
		"moving":             {session: chat.Session{Moving: true}, want: chat.Moving()},
		"moving and running": {session: chat.Session{Moving: true, Active: true}, want: chat.Moving()},
		"replaying":          {session: chat.Session{Replaying: true, Moving: true, Active: true}, want: chat.Replaying()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			err := history.Claim(c.session)
			if c.want == nil {
				require.NoError(t, err)
				return
			}

			require.Equal(t, c.want, err)
		})
	}
}

func TestEnd(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		name            string
		state           history.State
		latest, attempt int
		want            history.Verdict
	}{
		{"latest attempt", history.StateRunning, 2, 2, history.Apply},
		{"earlier attempt", history.StateRunning, 2, 1, history.Fenced},
		{"done", history.StateDone, 2, 2, history.Done},
		{"done, earlier attempt", history.StateDone, 2, 1, history.Done},
		{"failed", history.StateFailed, 2, 2, history.Failed},
		{"failed, earlier attempt", history.StateFailed, 2, 1, history.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, history.End(c.state, c.latest, c.attempt))
		})
	}
}

// A shows 0..9; B left it at 4 and C left B at 6.
var (
	a = history.Path{{"a", 10}}
	b = history.Path{{"a", 4}, {"b", 8}}
	c = history.Path{{"a", 4}, {"b", 6}, {"c", 7}}
)

func TestPath_Until(t *testing.T) {
	t.Parallel()

	for _, want := range []struct {
		path history.Path
		at   int64
		cut  history.Path
	}{
		{a, 0, history.Path{}},
		{a, 4, history.Path{{"a", 4}}},
		{b, 4, history.Path{{"a", 4}}},
		{b, 3, history.Path{{"a", 3}}},
		{b, 6, history.Path{{"a", 4}, {"b", 6}}},
		{c, 7, c},
		{c, 100, c},
		{history.Path{{"a", 0}, {"b", 5}}, 3, history.Path{{"b", 3}}}, // nothing of a is shown
	} {
		require.Equal(t, want.cut, want.path.Until(want.at), "%v until %d", want.path, want.at)
	}
}

func TestPath_Shows(t *testing.T) {
	t.Parallel()

	for _, want := range []struct {
		branch   domain.BranchID
		sequence int64
		shown    bool
	}{
		{"a", 0, true},
		{"a", 3, true},
		{"a", 4, false},
		{"b", 3, false},
		{"b", 4, true},
		{"b", 5, true},
		{"b", 6, false},
		{"c", 6, true},
		{"c", 7, false},
		{"d", 1, false},
	} {
		require.Equal(t, want.shown, c.Shows(want.branch, want.sequence), "%s %d", want.branch, want.sequence)
	}
}

func TestPath_Reaches(t *testing.T) {
	t.Parallel()
	require.True(t, c.Reaches("a", 4))
	require.False(t, c.Reaches("a", 5))
	require.True(t, c.Reaches("c", 7))
	require.False(t, c.Reaches("d", 0))
}

func TestCommon(t *testing.T) {
	t.Parallel()

	for _, want := range []struct {
		one, other history.Path
		same       int64
	}{
		{a, a, 10},
		{a, b, 4},
		{a, c, 4},
		{b, c, 6},
		{c, c, 7},
		{a, history.Path{{"x", 3}}, 0},
		{b, history.Path{{"a", 4}, {"x", 9}}, 4},
	} {
		require.Equal(t, want.same, history.Common(want.one, want.other), "%v and %v", want.one, want.other)
		require.Equal(t, want.same, history.Common(want.other, want.one), "%v and %v", want.other, want.one)
	}
}

func TestAfterStep(t *testing.T) {
	t.Parallel()

	calls := []history.ModelCall{
		{"first", 1, 2}, {"first", 2, 5}, {"first", 2, 7}, // the second call was made again
		{"second", 1, 10}, {"second", 2, 12},
	}
	for _, want := range []struct {
		step     int
		sequence int64
		before   bool
	}{{0, 2, true}, {1, 2, false}, {2, 7, false}, {3, 10, false}, {4, 12, false}} {
		sequence, before, err := history.AfterStep(calls, want.step)
		require.NoError(t, err)
		require.Equal(t, want.sequence, sequence, "step %d", want.step)
		require.Equal(t, want.before, before, "step %d", want.step)
	}

	for _, step := range []int{-1, 5} {
		_, _, err := history.AfterStep(calls, step)
		require.ErrorContains(t, err, "between 0 and 4")
	}

	_, _, err := history.AfterStep(nil, 0)
	require.ErrorContains(t, err, "has none yet")
}
