package events

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"everloop/domain"
)

// Metadata of a generation's stream.
const (
	// metaBase is the first sequence of the generation.
	metaBase = "everloop_base"
	// metaAfter is the last stored sequence of the previous generation. The sequences between it
	// and the base are in no generation.
	metaAfter = "everloop_after"
	// metaLost is set when one of these sequences is known to belong to a lost event.
	metaLost = "everloop_lost"
	// metaLast is the last sequence of a closed generation.
	metaLast = "everloop_last"
	// metaBytes is the size limit that a closed generation had while it was open.
	metaBytes = "everloop_max_bytes"
)

// closedReserve is the space in a closed generation for the message that ends its tails, in
// bytes.
const closedReserve = 64 << 10

// generation is one stream of the log. The log has one open generation, which accepts events, and
// older closed ones, which are readable until their events have expired.
type generation struct {
	name   string
	number int
	base   uint64
	after  uint64
	lost   bool
	epoch  string
	last   uint64 // math.MaxUint64 for the open one
	msgs   uint64 // at the last refresh
	config jetstream.StreamConfig
}

func (g generation) open() bool { return g.last == math.MaxUint64 }

// skips reports whether a sequence is between the generation and the previous one. Only a lost
// event can have it.
func (g generation) skips(seq uint64) bool { return g.number > 1 && g.after < seq && seq+1 < g.base }

// closedSubject returns the only subject of a closed generation. Its one message ends
// the tails that follow the stream.
func (l *Log) closedSubject(name string) string { return l.cfg.SubjectPrefix + "_closed." + name }

// known returns the cached generations, the oldest first.
func (l *Log) known() []generation {
	if list := l.gens.Load(); list != nil {
		return *list
	}

	return nil
}

// generations returns the current generations. It refreshes the cache after each reconnect,
// because the server may have restarted with other data.
func (l *Log) generations(ctx context.Context) ([]generation, error) {
	if l.nc.Stats().Reconnects != l.reconnects.Load() {
		if err := l.ensure(ctx); err != nil {
			return nil, err
		}
	}

	return l.known(), nil
}

// newest returns the generation that accepts events, or the name of the first one if none is
// known.
func (l *Log) newest() generation {
	if list := l.known(); len(list) > 0 {
		return list[len(list)-1]
	}

	return generation{name: l.cfg.Stream, number: 1, last: math.MaxUint64}
}

// Base returns the base of the generation that contains the sequence, or would contain it.
func (l *Log) Base(seq uint64) uint64 {
	base := uint64(0)
	for _, g := range l.known() {
		if g.base <= seq {
			base = g.base
		}
	}

	return base
}

// olderThanGeneration reports whether an event may have been published before the newest of
// several generations was created.
func (l *Log) olderThanGeneration(at time.Time) bool {
	list := l.known()
	return len(list) > 1 && !at.IsZero() && at.UnixMicro() < int64(list[len(list)-1].base) //nolint:gosec // microseconds since 1970
}

// lost reports whether an acknowledged sequence is in no generation.
func (l *Log) lost(ctx context.Context, list []generation, seq uint64) (bool, error) {
	for i, g := range list {
		if g.after < seq && seq < g.base {
			return true, nil
		}

		if seq < g.base || seq > g.last || i == len(list)-1 {
			continue
		}
		// Near the end of a closed generation the events of some sequences were removed.
		found, err := l.leader(ctx, g, leaderRequest{Seq: seq})

		return err == nil && found == nil, err
	}

	return false, nil
}

// refresh reads the generations from the server. It deletes closed ones whose events have all
// expired.
func (l *Log) refresh(ctx context.Context) ([]generation, error) {
	ours := regexp.MustCompile(`^` + regexp.QuoteMeta(l.cfg.Stream) + `(?:_([1-9][0-9]{0,8}))?$`)
	found := l.js.ListStreams(ctx)

	var list []generation

	for info := range found.Info() {
		match := ours.FindStringSubmatch(info.Config.Name)
		if match == nil {
			continue
		}

		g := generation{name: info.Config.Name, number: 1, last: math.MaxUint64, msgs: info.State.Msgs, config: info.Config}

		g.base, g.after = number(info, metaBase), number(info, metaAfter)
		g.lost, g.epoch = number(info, metaLost) > 0, info.Config.Metadata[metaEpoch]
		if match[1] != "" {
			g.number, _ = strconv.Atoi(match[1])
		}

		if slices.Contains(info.Config.Subjects, l.closedSubject(g.name)) {
			g.last = number(info, metaLast)
		} else if !l.takesEvents(info.Config) {
			continue // another program's
		}

		list = append(list, g)
	}

	if err := found.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
		return nil, domain.Unavailablef("event log", err)
	}

	slices.SortFunc(list, func(a, b generation) int { return a.number - b.number })
	list = slices.DeleteFunc(list, func(g generation) bool {
		return !g.open() && g.msgs == 0 && g.number < list[len(list)-1].number && l.js.DeleteStream(ctx, g.name) == nil
	})
	l.gens.Store(&list)

	return list, nil
}

func number(info *jetstream.StreamInfo, key string) uint64 {
	n, _ := strconv.ParseUint(info.Config.Metadata[key], 10, 64) // 0: not set
	return n
}

// noteLoss marks the generation that skips a sequence known to this process.
func (l *Log) noteLoss(ctx context.Context, seq uint64) error {
	for _, g := range l.known() {
		if g.lost || !g.skips(seq) {
			continue
		}

		config := g.config
		config.Metadata = with(config.Metadata, metaLost, 1)

		if _, err := l.js.UpdateStream(ctx, config); err != nil {
			return err
		}

		_, err := l.refresh(ctx)

		return err
	}

	return nil
}

// Missed reports whether a sequence that a client has seen was lost with the end of a
// generation. Events that the client has not seen may be lost with it.
func (l *Log) Missed(seq uint64) bool {
	return slices.ContainsFunc(l.known(), func(g generation) bool { return g.skips(seq) })
}

// close makes a generation read-only that may have lost its end. Its events stay until they
// expire. The server reserves MaxBytes for each stream, so close lowers it to the size of the
// generation.
func (l *Log) close(ctx context.Context, info *jetstream.StreamInfo) error {
	closed := info.Config
	closed.Subjects = []string{l.closedSubject(closed.Name)}
	closed.Metadata = with(closed.Metadata, metaLast, info.State.LastSeq)

	if limit := closed.MaxBytes; limit > 0 {
		closed.Metadata = with(closed.Metadata, metaBytes, uint64(limit))
		closed.MaxBytes = min(limit, int64(info.State.Bytes)+closedReserve) //nolint:gosec // below the limit
	}

	_, err := l.js.UpdateStream(ctx, closed)

	return err
}

// spareNumbers exceeds the number of sequences that a lost end can have after the highest known
// one: NATS flushes every 2 minutes by default.
const spareNumbers = 1_000_000

// next creates the generation after the closed ones of a list, or the first one.
func (l *Log) next(ctx context.Context, closed []generation, epoch string) error {
	high := l.high.Load()
	g := generation{name: l.cfg.Stream, number: 1}
	config := jetstream.StreamConfig{Replicas: l.cfg.Replicas, MaxAge: l.cfg.MaxAge, MaxBytes: l.cfg.MaxBytes, Duplicates: l.cfg.Duplicates}

	if len(closed) > 0 {
		before := closed[len(closed)-1]
		g = before.next(l.cfg.Stream, high)
		config = before.config

		if limit, _ := strconv.ParseInt(config.Metadata[metaBytes], 10, 64); limit > 0 {
			config.MaxBytes = limit
		}

		config = l.wanted(config)
		config.Replicas = before.config.Replicas // increased after the creation

		if err := l.endTails(ctx, before, epoch); err != nil {
			return err
		}
	}

	// The clock is ahead of all sequences, unless it was set back.
	if g.base = now(); g.base <= max(high, g.after) {
		g.base = max(high, g.after) + spareNumbers
	}

	config.Name, config.Subjects, config.FirstSeq = g.name, []string{l.cfg.SubjectPrefix + ".>"}, g.base
	config.Description = "Events of all sessions; seq is the stream's sequence."
	config.Storage, config.Retention, config.Discard = jetstream.FileStorage, jetstream.LimitsPolicy, jetstream.DiscardOld
	config.AllowDirect = true
	config.Metadata = with(with(map[string]string{metaEpoch: epoch}, metaBase, g.base), metaAfter, g.after)

	if g.lost {
		config.Metadata = with(config.Metadata, metaLost, 1)
	}

	_, err := l.js.CreateStream(ctx, config)

	return err
}

// next returns the generation after a closed one. high is the highest known sequence.
func (g generation) next(stream string, high uint64) generation {
	next := generation{
		name: fmt.Sprintf("%s_%d", stream, g.number+1), number: g.number + 1,
		after: g.last, lost: high > g.last,
	}

	if g.last < g.base { // it has no event, and will be deleted
		next.after, next.lost = g.after, next.lost || g.lost
	}

	return next
}

// endTails notifies processes that follow a closed generation. After a restart of NATS there are
// none, and an empty generation stays empty and can be deleted.
func (l *Log) endTails(ctx context.Context, g generation, epoch string) error {
	if g.msgs == 0 && g.epoch != epoch {
		return nil
	}

	msg := &nats.Msg{Subject: l.closedSubject(g.name), Data: []byte("{}"), Header: nats.Header{jetstream.MsgIDHeader: {"closed"}}}
	_, err := l.js.PublishMsg(ctx, msg)

	return err
}

func with(metadata map[string]string, key string, value uint64) map[string]string {
	out := map[string]string{}
	for k, v := range metadata {
		out[k] = v
	}

	out[key] = strconv.FormatUint(value, 10)

	return out
}
