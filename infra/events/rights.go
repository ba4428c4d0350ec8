package events

import (
	"context"
	"encoding/json"

	"github.com/nats-io/nats.go"

	"everloop/domain"
)

// AnnounceRights reports to every process that rights were revoked. It returns when the
// server has the message.
func (s *Signals) AnnounceRights(ctx context.Context, change domain.RightsChange) error {
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}

	if err := s.nc.Publish(rightsChanged, body); err != nil {
		return domain.Unavailablef("signals", err)
	}

	if err := s.flush(ctx); err != nil {
		return domain.Unavailablef("signals", err)
	}

	return nil
}

// WatchRights calls fn, sequentially, for every announced change of rights from now on, including
// changes of this process.
func (s *Signals) WatchRights(fn func(domain.RightsChange)) (cancel func(), err error) {
	sub, err := s.nc.Subscribe(rightsChanged, func(msg *nats.Msg) {
		var change domain.RightsChange
		if json.Unmarshal(msg.Data, &change) == nil && change != (domain.RightsChange{}) {
			fn(change)
		}
	})
	if err != nil {
		return nil, domain.Unavailablef("signals", err)
	}

	return func() { _ = sub.Unsubscribe() }, nil
}
