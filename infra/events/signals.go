package events

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"

	"everloop/domain"
)

const (
	chatStop = "chat.stop."
	taskStop = "task.stop."

	rightsChanged = "rights.changed"
)

// Signals transmits stop signals between processes (docs/architecture.md#stop). A signal can be
// lost, for example when a connection breaks: the flag in the database decides, and a signal only
// requests to check it now. A process that first watches and then checks the flag misses nothing,
// because watching takes effect immediately.
type Signals struct {
	nc   *nats.Conn
	subs []*nats.Subscription

	mu       sync.Mutex
	watchers map[string]map[*watcher]struct{} // by subject
}

type watcher struct{ ch chan struct{} }

// OpenSignals subscribes the process once for all later watches, and returns when the server has
// registered the subscription.
func OpenSignals(ctx context.Context, nc *nats.Conn) (*Signals, error) {
	s := &Signals{nc: nc, watchers: map[string]map[*watcher]struct{}{}}
	for _, subject := range []string{chatStop + "*", taskStop + "*"} {
		sub, err := nc.Subscribe(subject, s.receive)
		if err != nil {
			s.Close()
			return nil, domain.Unavailablef("signals", err)
		}

		s.subs = append(s.subs, sub)
	}

	if err := s.flush(ctx); err != nil {
		s.Close()
		return nil, domain.Unavailablef("signals", err)
	}

	return s, nil
}

// Close ends the subscription; watchers receive no further signals.
func (s *Signals) Close() {
	for _, sub := range s.subs {
		_ = sub.Unsubscribe()
	}
}

// AnnounceStop broadcasts the stop of a chat to every process. attempt is for observers of the
// bus; watchers read the flag. It returns when the server has received the message.
func (s *Signals) AnnounceStop(ctx context.Context, chatID domain.ChatID, attempt int) error {
	return s.announce(ctx, chatStop, "chat_id", string(chatID), strconv.Itoa(attempt))
}

// WatchStop watches for stops of one chat. The channel receives a value for stops that are
// announced from now on; several can be merged into one. cancel is idempotent.
func (s *Signals) WatchStop(chatID domain.ChatID) (ch <-chan struct{}, cancel func()) {
	return s.watch(string(chatStop) + string(chatID))
}

// AnnounceTaskStop broadcasts the stop of a background task to every process.
func (s *Signals) AnnounceTaskStop(ctx context.Context, taskID string) error {
	return s.announce(ctx, taskStop, "task_id", taskID, "")
}

// WatchTaskStop is WatchStop for a background task.
func (s *Signals) WatchTaskStop(taskID string) (ch <-chan struct{}, cancel func()) {
	return s.watch(taskStop + taskID)
}

// Watch watches for the stop of a chat, or of the background task that runs a part of it;
// an empty taskID: of the chat. A nil Signals never reports a stop.
func (s *Signals) Watch(chatID domain.ChatID, taskID string) (ch <-chan struct{}, cancel func()) {
	switch {
	case s == nil:
		return nil, func() {}
	case taskID != "":
		return s.WatchTaskStop(taskID)
	default:
		return s.WatchStop(chatID)
	}
}

func (s *Signals) announce(ctx context.Context, kind, field, id, body string) error {
	if err := token(field, domain.SessionID(id)); err != nil {
		return err
	}

	if err := s.nc.Publish(kind+id, []byte(body)); err != nil {
		return domain.Unavailablef("signals", err)
	}

	if err := s.flush(ctx); err != nil {
		return domain.Unavailablef("signals", fmt.Errorf("%s%s: %w", kind, id, err))
	}

	return nil
}

// flush returns when the server has processed all earlier messages.
func (s *Signals) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()

	return s.nc.FlushWithContext(ctx)
}

func (s *Signals) watch(subject string) (<-chan struct{}, func()) {
	w := &watcher{ch: make(chan struct{}, 1)}

	s.mu.Lock()
	defer s.mu.Unlock()

	if s.watchers[subject] == nil {
		s.watchers[subject] = map[*watcher]struct{}{}
	}

	s.watchers[subject][w] = struct{}{}

	return w.ch, func() {
		s.mu.Lock()
		defer s.mu.Unlock()

		delete(s.watchers[subject], w)

		if len(s.watchers[subject]) == 0 {
			delete(s.watchers, subject)
		}
	}
}

// receive runs on the subscription's goroutine.
func (s *Signals) receive(msg *nats.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for w := range s.watchers[msg.Subject] {
		select {
		case w.ch <- struct{}{}:
		default: // one is waiting already
		}
	}
}
