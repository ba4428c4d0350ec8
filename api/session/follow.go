package session

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"everloop/api/httpx"
	"everloop/domain"
	"everloop/infra/postgres/sessions"
	"everloop/realtime"
)

// Follower copies events of sessions to clients for as long as they may read them.
type Follower struct {
	Streams   *httpx.Streams
	Subscribe Streams
	Store     *sessions.Store
}

// follow copies events of a session to the client until pass reports that one was
// the last. Between events it sends a pulse; at each, and when the rights to the
// session change, it asks stay whether the client may continue.
func (f *Follower) follow(ctx context.Context, out *httpx.EventStream, sessionID domain.SessionID, from Subscription,
	stay func(context.Context) error, pass func(domain.LoggedEvent) (send, last bool),
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	changed, leave := f.Streams.Watch(httpx.CallerOf(ctx), sessionID)
	defer leave()

	// A change of rights between the caller's admission and Watch reached no channel: one
	// read of the session sees it, where the next pulse would be seconds away.
	if err := stay(ctx); err != nil {
		return endStream(out, sessionID, 0, err)
	}

	events, failed := make(chan domain.LoggedEvent, 64), make(chan error, 1)
	go func() {
		defer close(events)

		for {
			event, err := from.Next(ctx)
			if err != nil {
				failed <- err
				return
			}

			select {
			case events <- event:
			case <-ctx.Done():
				failed <- ctx.Err()
				return
			}
		}
	}()

	pulse := time.NewTicker(f.Streams.Pulse())
	defer pulse.Stop()

	for {
		select {
		case event, more := <-events:
			if !more {
				return endStream(out, sessionID, from.Position(), <-failed)
			}

			send, last := pass(event)
			if send {
				out.Send(event)
			}

			if last {
				return out.Flush()
			}

			if send && len(events) == 0 {
				if err := out.Flush(); err != nil {
					return err
				}
			}
		case <-pulse.C:
			if err := out.Comment("pulse"); err != nil {
				return err
			}

			if err := stay(ctx); err != nil {
				return endStream(out, sessionID, 0, err)
			}
		case <-changed:
			if err := stay(ctx); err != nil {
				return endStream(out, sessionID, 0, err)
			}
		}
	}
}

// mayStay gives the question that a stream asks at every pulse: whether the
// credentials still hold, and the session may still be seen. What the database
// cannot answer now does not end a stream.
func (f *Follower) mayStay(caller domain.Caller, sessionID domain.SessionID, role domain.ViewerRole) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := f.Streams.CheckCredentials(ctx, caller); err != nil {
			return err
		}

		_, now, err := f.Store.ReadSession(ctx, caller.User, sessionID)
		switch {
		case domain.HasCode(err, domain.CodeSessionNotFound):
			return err
		case err == nil && now != role:
			return domain.Newf(domain.Forbidden, "access_lost", "the right to follow this session has ended")
		}

		return nil
	}
}

// endStream says to the client why the stream ends: it has lost the right to it, or was too slow and continues by coming
// again with the position named.
func endStream(out *httpx.EventStream, sessionID domain.SessionID, position uint64, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}

	name, data := domain.EventSessionResync, any(domain.SessionResync{
		SessionID: sessionID, Seq: position, TS: time.Now().UTC().Format(time.RFC3339Nano),
	})
	if _, ok := errors.AsType[*domain.Error](err); ok {
		name, data = domain.EventSessionError, domain.SessionError{
			SessionID: sessionID, Event: realtime.SessionSubscribe, Error: domain.NewFailure(err),
		}
	}

	payload, _ := json.Marshal(data)
	out.Named(name, payload)
	_ = out.Flush()

	return err
}
