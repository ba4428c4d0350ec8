package durable

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
)

// Heartbeat tells the server every second that this activity is alive, until
// the returned function is called.
func Heartbeat(ctx context.Context) (stop func()) {
	until, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		beat := time.NewTicker(time.Second)
		defer beat.Stop()
		for {
			select {
			case <-until.Done():
				return
			case <-beat.C:
				activity.RecordHeartbeat(ctx)
			}
		}
	}()
	return func() { cancel(); <-done }
}
