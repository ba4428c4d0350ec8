package activities

import (
	"context"

	"everloop/activities/contract"
	"everloop/internal/durable"
)

// sharedWork is the work of this process that attempts of activities join.
type sharedWork struct {
	models durable.Shared[contract.CallModelIn, contract.CallModelOut]
	speech durable.Shared[contract.TranscribeIn, contract.TranscribeOut]
}

// wait waits until none of the work runs, or ctx ends.
func (s *sharedWork) wait(ctx context.Context) {
	s.models.Wait(ctx)
	s.speech.Wait(ctx)
}
