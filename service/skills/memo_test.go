//go:build linux

package skills

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain/skill"
)

// installedStore is met by an installation between a read and its answer.
type installedStore struct {
	Store
	installed []skill.Installed
	meets     func()
}

func (s *installedStore) InstalledSkills(context.Context, string) ([]skill.Installed, error) {
	list := s.installed

	if s.meets != nil {
		s.meets()
		s.meets = nil
	}

	return list, nil
}

func TestService_installedBy_installedDuringRead(t *testing.T) {
	t.Parallel()

	store := &installedStore{}
	s, err := New(Config{Dir: t.TempDir(), Store: store})
	require.NoError(t, err)

	store.meets = func() {
		store.installed = []skill.Installed{{OwnerID: "ann", Org: "o", Name: "new"}}
		s.installed.forget("ann")
	}

	_, err = s.installedBy(t.Context(), "ann")
	require.NoError(t, err)

	list, err := s.installedBy(t.Context(), "ann")
	require.NoError(t, err)
	require.Len(t, list, 1, "the list from before the installation was kept")
}

func TestMemo_read(t *testing.T) {
	t.Parallel()

	m := newMemo[string, int](10, time.Hour)
	give := func(n int, err error) func() (int, error) { return func() (int, error) { return n, err } }

	_, err := m.read("a", give(1, errors.New("down")))
	require.EqualError(t, err, "down")

	for _, n := range []int{2, 3} { // the second is not read
		got, err := m.read("a", give(n, nil))
		require.NoError(t, err)
		require.Equal(t, 2, got)
	}

	m.forget("a")

	got, err := m.read("a", give(4, nil))
	require.NoError(t, err)
	require.Equal(t, 4, got)
}
