package events

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/internal/testkit/natskit"
)

// cluster is an event log with three replicas, of which one may lag.
type cluster struct {
	*natskit.Cluster
	leader  *Log // of a process that is connected to the stream's leader
	lagging *Log // of a process that is connected to the replica that may lag
	lags    int
}

func newCluster(t *testing.T) *cluster {
	t.Helper()

	c := &cluster{Cluster: natskit.NewCluster(t)}

	var opened *Log

	require.Eventually(t, func() (done bool) {
		var err error

		opened, err = Open(long(t), c.Connect(0), Config{Replicas: 3})

		return err == nil
	}, time.Minute, 100*time.Millisecond)

	var info *jetstream.StreamInfo

	require.Eventually(t, func() bool {
		stream, err := opened.js.Stream(long(t), "EVENTS")
		if err == nil {
			info = stream.CachedInfo()
		}

		return err == nil && info.Cluster.Leader != "" && info.Cluster.Replicas[0].Current && info.Cluster.Replicas[1].Current
	}, time.Minute, 10*time.Millisecond)

	c.lags = c.Member(info.Cluster.Replicas[0].Name)

	var err error

	c.leader, err = Open(long(t), c.Connect(c.Member(info.Cluster.Leader)), Config{Replicas: 3})
	require.NoError(t, err)
	c.lagging, err = Open(long(t), c.Connect(c.lags), Config{Replicas: 3})
	require.NoError(t, err)

	// A replica takes part in direct gets once it has caught up and noticed that.
	require.Eventually(t, c.answersLate, time.Minute, 100*time.Millisecond)

	return c
}

// answersLate reports whether the replica that lags answers direct gets.
func (c *cluster) answersLate() bool {
	c.Lag(c.lags)
	defer c.CatchUp()

	seq, err := c.leader.Publish(context.Background(), patch("probe", 1))
	if err != nil {
		return false
	}

	for range manyTimes {
		answer, err := c.lagging.direct(context.Background(), c.lagging.newest(), directRequest{Seq: seq})
		if err == nil && len(answer.messages) == 0 {
			return true
		}
	}

	return false
}

// manyTimes is how often a request is sent that any of the three servers may answer.
const manyTimes = 30

// brief bounds a read whose answer a replica that lags cannot confirm.
func brief(t *testing.T) context.Context {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(cancel)

	return ctx
}

// Two processes publish the same row of the outbox, one of them by way of a replica that
// does not have the event yet.
func TestLog_Publish_onceWhileAReplicaLags(t *testing.T) {
	c := newCluster(t)
	c.Lag(c.lags)

	for range manyTimes {
		event := edgeEvent("s1", domain.EventTurnEnd, "t1")
		seq := publish(t, c.leader, event)
		again, err := c.lagging.Publish(t.Context(), event)
		require.NoError(t, err)
		require.Equal(t, seq, again)
	}

	c.CatchUp()
	require.Len(t, readAll(t, c.leader, "s1", 0, math.MaxUint64), manyTimes)
}

// What a replica has is not taken for all that there is.
func TestLog_readsNothingTooEarlyWhileAReplicaLags(t *testing.T) {
	c := newCluster(t)
	first := publish(t, c.leader, edgeEvent("s1", domain.EventTurnStart, "t1"))
	second := publish(t, c.leader, patch("s1", 1))

	c.Lag(c.lags)

	end := publish(t, c.leader, edgeEvent("s1", domain.EventTurnEnd, "t1"))

	reads := map[string]func(ctx context.Context) (any, error){
		"last": func(ctx context.Context) (any, error) { return c.lagging.Last(ctx, "s1") },
		"last up to": func(ctx context.Context) (any, error) {
			return c.lagging.LastUpTo(ctx, "s1", end+10)
		},
		"count": func(ctx context.Context) (any, error) { return c.lagging.Count(ctx, "s1", first) },
		"all": func(ctx context.Context) (any, error) {
			return collect(func(fn func(domain.LoggedEvent) error) error { return c.lagging.Read(ctx, "s1", 0, math.MaxUint64, fn) })
		},
		"up to the end": func(ctx context.Context) (any, error) {
			return collect(func(fn func(domain.LoggedEvent) error) error { return c.lagging.Read(ctx, "s1", 0, end, fn) })
		},
		"edges": func(ctx context.Context) (any, error) {
			return collect(func(fn func(domain.LoggedEvent) error) error { return c.lagging.ReadEdges(ctx, "s1", 0, end, fn) })
		},
	}
	want := map[string]any{
		"last": end, "last up to": end, "count": 2, "all": []uint64{first, second, end},
		"up to the end": []uint64{first, second, end}, "edges": []uint64{first, end},
	}

	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			ctx := brief(t)
			for range manyTimes {
				if got, err := read(ctx); err == nil {
					require.Equal(t, want[name], got)
				}
			}
		})
	}

	c.CatchUp()

	for name, read := range reads {
		t.Run(name+" afterwards", func(t *testing.T) {
			require.Eventually(t, func() bool {
				got, err := read(long(t))
				if err != nil {
					return false // the leader is not known again yet
				}

				require.Equal(t, want[name], got)

				return true
			}, time.Minute, 10*time.Millisecond)
		})
	}
}

// collect returns the sequences of the events that a read passes.
func collect(read func(fn func(domain.LoggedEvent) error) error) (seqs []uint64, err error) {
	err = read(func(e domain.LoggedEvent) error {
		seqs = append(seqs, e.Seq)
		return nil
	})

	return seqs, err
}

// A read continues at the leader where the replica that answers ends too early, however
// often that is: here it lags repeatedly while events come.
func TestLog_Read_isWholeWhileAReplicaCatchesUp(t *testing.T) {
	c := newCluster(t)
	session := domain.SessionID("s1")

	var want []uint64

	for round := range 5 {
		c.Lag(c.lags)

		for n := range 200 {
			want = append(want, publish(t, c.leader, patch(string(session), n)))
		}

		c.CatchUp()
		require.Eventually(t, func() bool {
			got, err := collect(func(fn func(domain.LoggedEvent) error) error {
				return c.lagging.Read(long(t), session, 0, math.MaxUint64, fn)
			})
			if err != nil {
				return false
			}

			require.Equal(t, len(want), len(got), fmt.Sprintf("round %d", round))
			require.Equal(t, want, got)

			return true
		}, time.Minute, 10*time.Millisecond)
	}
}
