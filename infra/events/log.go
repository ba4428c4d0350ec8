package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"everloop/domain"
)

// Config is the configuration of the log. Zero values select the defaults.
type Config struct {
	Stream        string // default EVENTS
	SubjectPrefix string // default events
	// The limits of an existing stream are raised to these and never lowered: an
	// operator may have raised them by hand.
	MaxAge     time.Duration // maximum age of an event; default 24 h
	MaxBytes   int64         // maximum size of the log on disk; the oldest events are deleted first; default: unlimited
	Duplicates time.Duration // window of duplicate detection by event id; default 2 min
	Replicas   int           // number of servers that store each event, 1, 3 or 5; default 1
	// HighWater is the highest sequence that was ever saved outside the log: a log that ends
	// before it has lost its end.
	HighWater uint64
	Blobs     Blobs // bodies of events over 256 KiB
	Logger    *slog.Logger
}

// withDefaults returns the configuration with defaults for zero values.
func (c Config) withDefaults() Config {
	if c.Stream == "" {
		c.Stream = "EVENTS"
	}

	if c.SubjectPrefix == "" {
		c.SubjectPrefix = "events"
	}

	if c.MaxAge == 0 {
		c.MaxAge = 24 * time.Hour
	}

	if c.MaxBytes == 0 {
		c.MaxBytes = -1
	}

	if c.Duplicates == 0 {
		c.Duplicates = min(2*time.Minute, c.MaxAge)
	}

	if c.Replicas == 0 {
		c.Replicas = 1
	}

	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}

	return c
}

// Log is the event log. It is safe for concurrent use.
type Log struct {
	nc         *nats.Conn
	js         jetstream.JetStream
	cfg        Config
	high       atomic.Uint64                // highest sequence known to this process
	gens       atomic.Pointer[[]generation] // cached, the oldest first
	reconnects atomic.Uint64                // reconnects of the connection at the last check of the newest generation
	away       atomic.Int64                 // Unix time in nanoseconds until which deltas are rejected
	repair     sync.Mutex                   // serialises the creation of generations
}

// Open creates the log's stream, or updates the existing one to the configuration. A stream that
// ends before HighWater has lost its end, for example by a power failure or the restore of an
// older copy, and a stream that was created before NATS restarted may have lost it. Such a stream
// is closed and stays readable until its events have expired. The log continues in a new stream,
// whose first sequence is the current time in microseconds, so that no sequence is assigned
// twice.
func Open(ctx context.Context, nc *nats.Conn, cfg Config) (*Log, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("event log: %w", err)
	}

	l := &Log{nc: nc, js: js, cfg: cfg.withDefaults()}
	l.high.Store(cfg.HighWater)

	if err := l.ensure(ctx); err != nil {
		return nil, err
	}

	return l, nil
}

// ensureTries is the maximum number of attempts of ensure, which can lose races with other
// processes.
const ensureTries = 8

// ensure checks that the newest generation is open and has not lost its end, and creates the next
// one otherwise.
func (l *Log) ensure(ctx context.Context) error {
	l.repair.Lock()
	defer l.repair.Unlock()

	err := errContended

	for range ensureTries {
		reconnects := l.nc.Stats().Reconnects

		done, failed := l.ensureOnce(ctx)
		if done && failed == nil {
			l.reconnects.Store(reconnects)
			return nil
		}

		if failed != nil {
			err = failed
		}

		if failed != nil && !contended(failed) {
			break
		}
	}

	return domain.Unavailablef("event log", err)
}

var errContended = errors.New("other processes change the streams of the event log")

// contended reports that another process has just created or removed the stream.
func contended(err error) bool {
	refused, ok := errors.AsType[*jetstream.APIError](err)

	return errors.Is(err, errContended) ||
		errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) || errors.Is(err, jetstream.ErrStreamNotFound) ||
		ok && refused.ErrorCode == streamSubjectOverlap
}

// streamSubjectOverlap is the server's error code for a subject of another stream.
const streamSubjectOverlap = 10065

// ensureOnce runs one step: done reports that the newest generation is valid.
func (l *Log) ensureOnce(ctx context.Context) (done bool, err error) {
	high := l.high.Load() // before reading the stream, to which other goroutines publish

	epoch, err := l.epoch(ctx)
	if err != nil {
		return false, err
	}

	info, err := l.openInfo(ctx)
	if err != nil {
		return false, err
	}

	if info == nil { // the generations must be refreshed
		list, err := l.refresh(ctx)
		if err != nil || len(list) > 0 && list[len(list)-1].open() {
			return false, err
		}

		return false, l.next(ctx, list, epoch)
	}

	switch last, created := info.State.LastSeq, info.Config.Metadata[metaEpoch]; {
	case last < high:
		l.cfg.Logger.Warn("event log lost its tail; continuing in a new generation at a higher sequence number",
			"stream", info.Config.Name, "last", last, "high_water", high)

		return false, l.close(ctx, info)
	case created != epoch:
		l.cfg.Logger.Info("NATS restarted; continuing the event log in a new generation", "stream", info.Config.Name, "last", last)

		return false, l.close(ctx, info)
	}

	if err := l.noteLoss(ctx, high); err != nil {
		return false, err
	}

	l.reach(info)

	return true, l.update(ctx, info.Config)
}

// openInfo returns the current state of the newest generation; nil: it is closed.
func (l *Log) openInfo(ctx context.Context) (*jetstream.StreamInfo, error) {
	list := l.known()
	if len(list) == 0 || !list[len(list)-1].open() {
		return nil, nil
	}

	stream, err := l.js.Stream(ctx, list[len(list)-1].name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}

	if err != nil {
		return nil, err
	}

	info := stream.CachedInfo()
	if !l.takesEvents(info.Config) || number(info, metaBase) != list[len(list)-1].base {
		return nil, nil
	}

	return info, nil
}

// takesEvents reports whether a stream is an open generation.
func (l *Log) takesEvents(config jetstream.StreamConfig) bool {
	return slices.Contains(config.Subjects, l.cfg.SubjectPrefix+".>")
}

// wanted returns a stream's configuration with limits that are not below the log's configuration.
func (l *Log) wanted(have jetstream.StreamConfig) jetstream.StreamConfig {
	want := have
	want.MaxAge = higher(have.MaxAge, l.cfg.MaxAge)
	want.MaxBytes = higher(have.MaxBytes, l.cfg.MaxBytes)
	want.Duplicates, want.Replicas = max(have.Duplicates, l.cfg.Duplicates), max(have.Replicas, l.cfg.Replicas)
	want.AllowDirect, want.Discard = true, jetstream.DiscardOld

	return want
}

// update writes the differences from the wanted configuration.
func (l *Log) update(ctx context.Context, have jetstream.StreamConfig) error {
	want := l.wanted(have)

	same := want.MaxAge == have.MaxAge && want.MaxBytes == have.MaxBytes && want.Duplicates == have.Duplicates &&
		want.Replicas == have.Replicas && have.AllowDirect && have.Discard == jetstream.DiscardOld
	if same {
		return nil
	}

	_, err := l.js.UpdateStream(ctx, want)
	if err != nil && want.Replicas > have.Replicas {
		// Too few servers of the cluster are running: the log continues with the current
		// replicas.
		l.cfg.Logger.Error("failed to raise the replicas of the event log, retrying at the next start",
			"replicas", have.Replicas, "wanted", want.Replicas, "error", err)
		want.Replicas = have.Replicas
		_, err = l.js.UpdateStream(ctx, want)
	}

	return err
}

// higher returns the higher of two limits; 0 and less are unlimited.
func higher[T int64 | time.Duration](have, want T) T {
	if have <= 0 || want <= 0 {
		return min(have, want)
	}

	return max(have, want)
}

// reach raises the highest known sequence to the last one of a generation. The last sequence of
// an empty generation precedes its first and belongs to no event.
func (l *Log) reach(info *jetstream.StreamInfo) {
	if last := info.State.LastSeq; last >= number(info, metaBase) {
		l.raise(last)
	}
}

// raise records that the log has reached seq.
func (l *Log) raise(seq uint64) {
	for {
		have := l.high.Load()
		if seq <= have || l.high.CompareAndSwap(have, seq) {
			return
		}
	}
}

// HighWater returns the highest sequence known to this process: the number to save outside the
// log, for Config.HighWater of the next start.
func (l *Log) HighWater() uint64 { return l.high.Load() }

// Kept returns the start of the complete part of the log: it contains every event with a sequence
// from first, and every event that was published at since or later. The part ends at a known
// loss; earlier generations can contain more. Kept does not check sequences up to after.
func (l *Log) Kept(ctx context.Context, after uint64) (first uint64, since time.Time, err error) {
	list, err := l.generations(ctx)
	if err != nil {
		return 0, time.Time{}, err
	}

	for _, g := range slices.Backward(list) {
		stream, err := l.js.Stream(ctx, g.name)
		if errors.Is(err, jetstream.ErrStreamNotFound) && !g.open() {
			break // its events have expired
		}

		if err != nil {
			return 0, time.Time{}, domain.Unavailablef("event log", err)
		}

		info := stream.CachedInfo()

		var dropped bool

		first, since, dropped = kept(info)
		if dropped || first <= after+1 || number(info, metaLost) > 0 {
			break
		}
	}

	return first, since, nil
}

// kept returns the start of the complete part of a generation, and whether it has dropped events.
func kept(info *jetstream.StreamInfo) (first uint64, since time.Time, dropped bool) {
	first = info.State.FirstSeq
	base := number(info, metaBase)

	baseTime := time.UnixMicro(int64(base)).UTC() //nolint:gosec // microseconds since 1970 fit for 290,000 years
	switch {
	case first <= base:
		return first, baseTime, false
	case info.State.Msgs > 0:
		return first, info.State.FirstTime.UTC(), true
	case info.State.LastTime.After(baseTime):
		return first, info.State.LastTime.UTC(), true // the last one has expired
	default:
		return first, baseTime, true
	}
}

// Forget deletes a session's events. Bodies in objects are not deleted.
func (l *Log) Forget(ctx context.Context, sessionID domain.SessionID) error {
	if err := token("session_id", sessionID); err != nil {
		return err
	}

	list, err := l.generations(ctx)
	if err != nil {
		return err
	}

	for _, g := range list {
		if err := l.forgetIn(ctx, g, l.flow(sessionID), l.edge(sessionID)); err != nil {
			return domain.Unavailablef("event log", err)
		}
	}

	return nil
}

func (l *Log) forgetIn(ctx context.Context, g generation, subjects ...string) error {
	stream, err := l.js.Stream(ctx, g.name)
	if errors.Is(err, jetstream.ErrStreamNotFound) && !g.open() {
		return nil // its events have expired
	}

	if err != nil {
		return err
	}

	for _, subject := range subjects {
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
			return err
		}
	}

	return nil
}

// now returns the first sequence for a new stream: the Unix time in microseconds. It stays below
// 2^53, the limit of integers in JavaScript, until 2255.
func now() uint64 { return uint64(time.Now().UnixMicro()) } //nolint:gosec // positive since 1970

// Lost returns the given sequences whose events were lost with the end of a generation, after
// checking with the server.
func (l *Log) Lost(ctx context.Context, seqs []uint64) ([]uint64, error) {
	if err := l.ensure(ctx); err != nil {
		return nil, err
	}

	list := l.known()

	var lost []uint64
	for _, seq := range seqs {
		gone, err := l.lost(ctx, list, seq)
		if err != nil {
			return nil, err
		}

		if gone {
			lost = append(lost, seq)
		}
	}

	return lost, nil
}
