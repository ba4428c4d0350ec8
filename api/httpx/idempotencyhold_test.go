package httpx

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// countingStore counts how often a claim was renewed.
type countingStore struct {
	IdempotencyStore
	renewed atomic.Int32
}

func (c *countingStore) RenewIdempotent(_ context.Context, userID, key string) error {
	if userID == "u" && key == "k" {
		c.renewed.Add(1)
	}

	return nil
}

// A claim lasts two minutes; an upload may take an hour.
func TestOnce_hold_renewsItsClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &countingStore{}

		release := (&Once{userID: "u", Key: "k", keys: &idempotency{store: store}}).hold()
		for minutes := range int32(10) {
			require.GreaterOrEqual(t, store.renewed.Load(), minutes)
			time.Sleep(time.Minute) //nolint:forbidigo // in a synctest bubble
			synctest.Wait()
		}

		release()
		synctest.Wait()

		kept := store.renewed.Load()

		time.Sleep(10 * time.Minute) //nolint:forbidigo // in a synctest bubble
		require.Equal(t, kept, store.renewed.Load(), "it goes on after the request")
	})
}
