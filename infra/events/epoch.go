package events

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"everloop/domain"
)

// metaEpoch is the epoch in which a generation was created.
const metaEpoch = "everloop_epoch"

// epoch returns the epoch of NATS: a random id in a stream that is kept in memory. It is
// the same for all processes, however they are connected, until NATS restarts, which
// forgets it. Then the end of the event log may be lost, as NATS acknowledges events
// before it flushes them to the disk. The first process that asks sets the next epoch.
func (l *Log) epoch(ctx context.Context) (string, error) {
	name, subject := l.cfg.Stream+"_EPOCH", l.cfg.SubjectPrefix+"_epoch"

	stored, err := l.leader(ctx, generation{name: name}, leaderRequest{LastFor: subject})
	if err != nil {
		return "", err
	}

	if stored != nil {
		return string(stored.body), nil
	}

	if err := l.createEpochs(ctx, name, subject); err != nil {
		return "", err
	}

	epoch := domain.NewID()
	unset := nats.Header{jetstream.ExpectedLastSubjSeqHeader: {"0"}}

	_, err = l.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: []byte(epoch), Header: unset})
	if overtaken(err) {
		return "", errContended
	}

	return epoch, err
}

// createEpochs creates the stream of the epoch. Replicas let the epoch outlive the
// restart of one server of a cluster; without them, the log only has more generations.
func (l *Log) createEpochs(ctx context.Context, name, subject string) error {
	config := jetstream.StreamConfig{
		Name: name, Subjects: []string{subject}, Description: "Is empty after a restart, when the event log may have lost its end.",
		Storage: jetstream.MemoryStorage, MaxMsgs: 1, MaxBytes: 4 << 10, Replicas: l.cfg.Replicas,
	}

	_, err := l.js.CreateStream(ctx, config)
	if err != nil && config.Replicas > 1 && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		config.Replicas = 1 // too few servers of the cluster are up
		_, err = l.js.CreateStream(ctx, config)
	}

	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return nil
	}

	return err
}
