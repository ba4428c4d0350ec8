package identity_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/identity"
)

// accounts are kept in memory, ordered by id.
type accounts struct {
	of      string
	known   []domain.IdentityAccount
	changes []string
}

func (a *accounts) IdentityAccounts(_ context.Context, issuer, after string, limit int) (page []domain.IdentityAccount, err error) {
	for _, one := range a.known {
		if issuer == a.of && one.UserID > after && len(page) < limit {
			page = append(page, one)
		}
	}

	return page, nil
}

func (a *accounts) FollowIdentityAccount(_ context.Context, userID string, open, administrator bool) (bool, error) {
	i := slices.IndexFunc(a.known, func(one domain.IdentityAccount) bool { return one.UserID == userID })
	a.known[i].Open, a.known[i].Administrator = open, administrator
	a.changes = append(a.changes, fmt.Sprint(userID, " ", open, " ", administrator))

	return true, nil
}

func newFollower(t *testing.T, s *service, known *accounts) (*identity.Follower, *clock, *[]string) {
	t.Helper()

	c, reported := &clock{at: time.Now()}, &[]string{}
	changed := func(_ context.Context, userID string, open bool) {
		*reported = append(*reported, fmt.Sprint(userID, " ", open))
	}

	return identity.NewFollower(identity.NewClient(s.URL, c.now), known, changed, c.now), c, reported
}

func TestFollower_Follow(t *testing.T) {
	t.Parallel()
	s := newService(t)
	known := &accounts{of: issuer}

	for i := range 350 {
		id := fmt.Sprintf("u%03d", i)
		known.known = append(known.known, domain.IdentityAccount{UserID: id, Subject: "s" + id, Open: true, Administrator: i%2 == 0})
	}

	f, _, reported := newFollower(t, s, known)
	require.NoError(t, f.Follow(t.Context()))
	require.Empty(t, known.changes)

	s.set(func() {
		s.ended["account/su001"], s.ended["administrator/su002"], s.ended["account/su349"] = true, true, true
	})
	require.NoError(t, f.Follow(t.Context()))
	require.Equal(t, []string{"u001 false false", "u002 true false", "u349 false false"}, known.changes)
	require.Equal(t, []string{"u001 false", "u002 true", "u349 false"}, *reported)

	s.set(func() { delete(s.ended, "account/su001") })
	require.NoError(t, f.Follow(t.Context()))
	require.Equal(t, "u001 true", (*reported)[len(*reported)-1])
	require.Len(t, *reported, 4)
}

func TestFollower_Follow_closesNothingWithoutAnAnswer(t *testing.T) {
	t.Parallel()

	for name, change := range map[string]func(*service, *accounts){
		"away":              func(s *service, _ *accounts) { s.away = true },
		"an older service":  func(s *service, _ *accounts) { s.old = true },
		"of another issuer": func(s *service, a *accounts) { s.ended["account/su"], a.of = true, "https://other.example" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, known := newService(t), &accounts{of: issuer, known: []domain.IdentityAccount{{UserID: "u", Subject: "su", Open: true}}}
			f, _, reported := newFollower(t, s, known)
			s.set(func() { change(s, known) })
			require.Equal(t, name == "of another issuer", f.Follow(t.Context()) == nil)
			require.Empty(t, *reported)
		})
	}
}

func TestFollower_Known_isBounded(t *testing.T) {
	t.Parallel()
	s := newService(t)
	f, c, _ := newFollower(t, s, &accounts{of: issuer})
	person, own := domain.User{ID: "u", Issuer: issuer, Subject: "su"}, domain.User{ID: "v"}

	s.set(func() { s.away = true })
	c.pass(15 * time.Minute)
	require.NoError(t, f.Known(person))
	c.pass(time.Second)
	require.Equal(t, domain.Unavailable, domain.AsError(f.Known(person)).Kind)
	require.NoError(t, f.Known(own), "the agent alone knows this user")

	s.set(func() { s.away = false })
	require.NoError(t, f.Follow(t.Context()))
	require.NoError(t, f.Known(person))
}
