package api

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// claims counts how often a claim was renewed.
type claims struct {
	Store
	renewed atomic.Int32
}

func (c *claims) RenewIdempotent(_ context.Context, userID, key string) error {
	if userID == "u" && key == "k" {
		c.renewed.Add(1)
	}
	return nil
}

// A claim lasts two minutes; an upload may take an hour.
func TestLongRequestsKeepTheirKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &claims{}
		release := (&once{userID: "u", key: "k"}).hold(&server{Config: Config{Store: store}})
		for minutes := range int32(10) {
			require.GreaterOrEqual(t, store.renewed.Load(), minutes)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		release()
		synctest.Wait()
		kept := store.renewed.Load()
		time.Sleep(10 * time.Minute)
		require.Equal(t, kept, store.renewed.Load(), "it goes on after the request")
	})
}
