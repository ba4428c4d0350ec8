package activities

import (
	"context"
	"time"

	"everloop/activities/contract"
	"everloop/internal/durable"
)

// abandonAfter is how long a model call or a piece of a compaction goes on without
// an attempt that waits for it. A next attempt comes within the longest pause of
// its retry policy; none comes when its run has been terminated.
const abandonAfter = 30 * time.Second

// sharedWork is the work of this process that attempts of activities join.
type sharedWork struct {
	models      durable.Shared[contract.CallModelIn, contract.CallModelOut]
	compactions durable.Shared[contract.CompactIn, contract.CompactOut]
	speech      durable.Shared[contract.TranscribeIn, contract.TranscribeOut]
}

// wait waits until none of the work runs, or ctx ends.
func (s *sharedWork) wait(ctx context.Context) {
	s.models.Wait(ctx)
	s.compactions.Wait(ctx)
	s.speech.Wait(ctx)
}
