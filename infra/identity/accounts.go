package identity

import (
	"context"
	"sync"
	"time"

	"everloop/domain"
)

// Accounts stores what is known of the accounts that belong to people of the service.
type Accounts interface {
	// IdentityAccounts returns accounts of an issuer, in the order of their users' ids and
	// after the given one, at most limit.
	IdentityAccounts(ctx context.Context, issuer, after string, limit int) ([]domain.IdentityAccount, error)
	// FollowIdentityAccount takes over the state of an account, and reports whether it
	// changed.
	FollowIdentityAccount(ctx context.Context, userID string, open, administrator bool) (changed bool, err error)
}

// holdFor is how long API keys of people are accepted while the service does not answer.
const holdFor = 15 * time.Minute

// Follower takes over from the service which accounts are disabled or deleted, and who no
// longer administers. It is safe for concurrent use.
type Follower struct {
	service  *Client
	accounts Accounts
	changed  func(ctx context.Context, userID string, open bool)
	now      func() time.Time

	mu       sync.Mutex
	answered time.Time // when all accounts were followed; at first the start
}

// NewFollower returns a Follower that reports changes; now is its clock, nil: time.Now.
func NewFollower(
	service *Client, accounts Accounts, changed func(ctx context.Context, userID string, open bool), now func() time.Time,
) *Follower {
	if now == nil {
		now = time.Now
	}

	return &Follower{service: service, accounts: accounts, changed: changed, now: now, answered: now()}
}

// Known returns an error for a person of a service that has not answered for holdFor: their
// account may have been closed in the meantime. It implements auth.Options.Known.
func (f *Follower) Known(user domain.User) error {
	f.mu.Lock()
	defer f.mu.Unlock()

	if user.Issuer == "" || f.now().Sub(f.answered) <= holdFor {
		return nil
	}

	return domain.Unavailablef(dependency, errUnavailable)
}

// Follow asks about every account once.
func (f *Follower) Follow(ctx context.Context) error {
	began := f.now()

	issuer, err := f.service.currentIssuer(ctx)
	if err != nil {
		return err
	}

	for after := ""; ; {
		page, err := f.accounts.IdentityAccounts(ctx, issuer, after, accountIDs)
		if err != nil {
			return err
		}

		if len(page) > 0 {
			if err := f.followPage(ctx, page); err != nil {
				return err
			}

			after = page[len(page)-1].UserID
		}

		if len(page) < accountIDs {
			break
		}
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	f.answered = began

	return nil
}

func (f *Follower) followPage(ctx context.Context, page []domain.IdentityAccount) error {
	entries := make([]string, 0, 2*len(page))
	for _, a := range page {
		entries = append(entries, "account/"+a.Subject)
		if a.Administrator {
			entries = append(entries, "administrator/"+a.Subject)
		}
	}

	holds, err := f.service.openAccounts(ctx, entries)
	if err != nil {
		return err
	}

	for _, a := range page {
		open, administrator := holds["account/"+a.Subject], holds["administrator/"+a.Subject]
		if open == a.Open && (administrator == a.Administrator || !open) {
			continue
		}

		changed, err := f.accounts.FollowIdentityAccount(ctx, a.UserID, open, administrator)
		if err != nil {
			return err
		}

		if changed {
			f.changed(ctx, a.UserID, open)
		}
	}

	return nil
}
