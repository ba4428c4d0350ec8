package toolrun

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"everloop/domain"
)

// progressWait is how long the first piece of live output waits for the event of its call.
const progressWait = 2 * time.Second

// liveOutput publishes live output of a call behind the event that shows the call, which is
// published only after its commit.
func (r *Runner) liveOutput(ctx context.Context, call domain.LedgerCall) func(stream, text string) {
	keep := context.WithoutCancel(ctx)

	return liveOutput(ctx, func(ctx context.Context) error {
		return r.Store.Published(ctx, call.SessionID)
	}, func(stream, text string) {
		r.progress(keep, call, stream, text)
	})
}

// liveOutput returns what publishes pieces of output once the event of their call is
// published. If published takes too long or fails, there is no live output: the result
// contains all of it.
//
// When ctx is over there is none either, such as the rest of a killed command's output: the
// call was stopped or taken over, or its lease can expire, and behind its result, which
// another worker can publish by then, no output may come.
func liveOutput(
	ctx context.Context, published func(context.Context) error, publish func(stream, text string),
) func(stream, text string) {
	keep := context.WithoutCancel(ctx)
	shown := sync.OnceValue(func() bool {
		ctx, cancel := context.WithTimeout(keep, progressWait)
		defer cancel()

		return published(ctx) == nil
	})

	return func(stream, text string) {
		if ctx.Err() == nil && shown() && ctx.Err() == nil {
			publish(stream, text)
		}
	}
}

// progress publishes one piece of live output, which can be lost.
func (r *Runner) progress(ctx context.Context, call domain.LedgerCall, stream, text string) {
	data, err := json.Marshal(domain.ToolProgressPatch{
		TurnID: call.EntryID, PatchType: domain.PatchToolProgress, ToolCallID: call.ID, TextDelta: domain.CleanText(text), Stream: stream,
	})
	if err == nil {
		_, err = r.Log.PublishDelta(ctx, domain.Event{
			SessionID: call.SessionID, ChatID: call.ChatID, Name: domain.EventTurnPatch, At: time.Now().UTC(), Data: data,
		})
	}

	if err != nil {
		r.Logger.Debug("failed to publish tool progress", "session_id", call.SessionID, "error", err)
	}
}
