package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asker counts what is looked for, and holds each look up until it may go on.
type asker struct {
	of    shared[string, int]
	truth int
	begun chan int
	goOn  chan struct{}
	gone  chan error
	mu    sync.Mutex
}

func newAsker() *asker {
	return &asker{begun: make(chan int, 10), goOn: make(chan struct{}, 10), gone: make(chan error, 10)}
}

func (a *asker) set(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.truth = n
}

func (a *asker) find(ctx context.Context) (int, error) {
	a.mu.Lock()
	seen := a.truth
	a.mu.Unlock()
	a.begun <- seen
	select {
	case <-a.goOn:
		return seen, nil
	case <-ctx.Done():
		a.gone <- ctx.Err()
		return 0, ctx.Err()
	}
}

// TestNobodyIsGivenAnAnswerOlderThanHisQuestion: those who ask while an answer is
// looked for share the next one, which is begun after they have asked.
func TestNobodyIsGivenAnAnswerOlderThanHisQuestion(t *testing.T) {
	t.Parallel()
	a := newAsker()
	a.set(1)
	first := a.of.ask(t.Context(), "q", a.find)
	require.Equal(t, 1, <-a.begun)

	a.set(2) // what the later ones may have done themselves
	var later []func() (int, error)
	for range 5 {
		later = append(later, a.of.ask(t.Context(), "q", a.find))
	}
	other := a.of.ask(t.Context(), "another question", a.find)
	require.Equal(t, 2, <-a.begun, "it waits for nobody")
	a.goOn <- struct{}{}
	a.goOn <- struct{}{}
	n, err := first()
	require.NoError(t, err)
	require.Equal(t, 1, n)
	n, err = other()
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, 2, <-a.begun)
	a.goOn <- struct{}{}
	for _, wait := range later {
		n, err := wait()
		require.NoError(t, err)
		require.Equal(t, 2, n)
	}
	require.Empty(t, a.begun, "the five were asked for once")
	require.Eventually(t, func() bool {
		a.of.mu.Lock()
		defer a.of.mu.Unlock()
		return len(a.of.asking) == 0 && len(a.of.next) == 0
	}, time.Minute, time.Millisecond, "nothing is left behind")
}

func TestWhoLeavesTakesTheQuestionAlongWhenHeIsTheLast(t *testing.T) {
	t.Parallel()
	a := newAsker()
	ctx, leave := context.WithCancel(t.Context())
	first, second := a.of.ask(ctx, "q", a.find), a.of.ask(t.Context(), "q", a.find)
	<-a.begun
	waiting, giveUp := context.WithCancel(t.Context())
	third := a.of.ask(waiting, "q", a.find)
	giveUp()
	_, err := third()
	require.ErrorIs(t, err, context.Canceled, "the second still waits")
	leave()
	_, err = first()
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, <-a.gone, context.Canceled, "nobody waits for what was begun")
	<-a.begun
	a.goOn <- struct{}{}
	_, err = second()
	require.NoError(t, err)

	// One that all have given up before it began is joined by nobody.
	first = a.of.ask(t.Context(), "q", a.find)
	<-a.begun
	waiting, giveUp = context.WithCancel(t.Context())
	third = a.of.ask(waiting, "q", a.find)
	giveUp()
	_, err = third()
	require.ErrorIs(t, err, context.Canceled)
	fourth := a.of.ask(t.Context(), "q", a.find)
	a.goOn <- struct{}{}
	a.goOn <- struct{}{}
	for _, wait := range []func() (int, error){first, fourth} {
		_, err = wait()
		require.NoError(t, err)
	}
}

func TestAPanicWhileItLooksIsAnErrorOfThoseWhoAsked(t *testing.T) {
	t.Parallel()
	var s shared[string, int]
	_, err := s.ask(t.Context(), "q", func(context.Context) (int, error) { panic("oops") })()
	require.ErrorContains(t, err, "oops")
	_, err = s.ask(t.Context(), "q", func(context.Context) (int, error) { return 0, errors.New("the next one runs") })()
	require.ErrorContains(t, err, "the next one runs")
}
