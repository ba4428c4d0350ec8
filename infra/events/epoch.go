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

// epoch returns the epoch of NATS: a random id in a stream with memory storage. It is equal for
// all processes until NATS restarts, which deletes it. A restart can lose the end of the event
// log, because NATS acknowledges events before it flushes them to disk. The first process that
// requests a missing epoch creates the next one.
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

// createEpochs creates the stream of the epoch. With replicas the epoch survives the restart of
// one server of a cluster; without them, the log only has more generations.
func (l *Log) createEpochs(ctx context.Context, name, subject string) error {
	config := jetstream.StreamConfig{
		Name: name, Subjects: []string{subject}, Description: "Is empty after a restart, when the event log may have lost its end.",
		Storage: jetstream.MemoryStorage, MaxMsgs: 1, MaxBytes: 4 << 10, Replicas: l.cfg.Replicas,
	}

	_, err := l.js.CreateStream(ctx, config)
	if err != nil && config.Replicas > 1 && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		config.Replicas = 1 // too few servers of the cluster are running
		_, err = l.js.CreateStream(ctx, config)
	}

	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return nil
	}

	return err
}
