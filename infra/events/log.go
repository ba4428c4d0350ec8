package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"everloop/domain"
)

// Config says how the log keeps events. Zero values take the defaults.
type Config struct {
	Stream        string        // default EVENTS
	SubjectPrefix string        // default events
	MaxAge        time.Duration // how long an event is kept; default 24 h
	MaxBytes      int64         // size of the log on disk; the oldest go first; default no limit
	Duplicates    time.Duration // how long an event id is known; default 2 min
	Replicas      int           // default 1
	// HighWater is the highest sequence that was ever saved outside the log: a
	// log that ends before it has lost its tail.
	HighWater uint64
	Blobs     Blobs // bodies of events over 256 KiB
	Logger    *slog.Logger
}

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

// Log is the event log. Its methods may be called from many goroutines.
type Log struct {
	nc   *nats.Conn
	js   jetstream.JetStream
	cfg  Config
	high atomic.Uint64 // highest sequence known to this process
	mend sync.Mutex    // one goroutine at a time creates or purges the stream
}

// metaBase names the stream's metadata that holds its base: the number from
// which it has been counting since it was made or last emptied.
const metaBase = "everloop_base"

// Open makes the stream, or brings the existing one to the configuration. An
// existing stream that ends before HighWater lost its tail, as after a power
// loss: it is emptied and goes on at the microseconds of now, so that no number
// is given twice.
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

// ensure makes the stream when it is missing, and empties it when it ends
// before what this process knows to have been in it.
func (l *Log) ensure(ctx context.Context) error {
	l.mend.Lock()
	defer l.mend.Unlock()
	high := l.high.Load()
	stream, err := l.js.Stream(ctx, l.cfg.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err = l.create(ctx); err == nil {
			return nil
		}
		if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return domain.Unavailablef("event log", err)
		}
		stream, err = l.js.Stream(ctx, l.cfg.Stream) // another process was first
	}
	if err != nil {
		return domain.Unavailablef("event log", err)
	}
	info := stream.CachedInfo()
	if info.State.LastSeq < high {
		base := max(now(), high+1)
		l.cfg.Logger.Warn("event log lost its tail; it is emptied and goes on at a higher number",
			"last", info.State.LastSeq, "high_water", high, "base", base)
		if err := stream.Purge(ctx, jetstream.WithPurgeSequence(base)); err != nil {
			return domain.Unavailablef("event log", err)
		}
		if err := l.update(ctx, info.Config, base); err != nil {
			return err
		}
		l.raise(base - 1)
		return nil
	}
	l.raise(info.State.LastSeq)
	return l.update(ctx, info.Config, 0)
}

func (l *Log) create(ctx context.Context) error {
	base := max(now(), l.high.Load()+1)
	_, err := l.js.CreateStream(ctx, jetstream.StreamConfig{
		Name:        l.cfg.Stream,
		Description: "Events of all sessions; seq is the stream's sequence.",
		Subjects:    []string{l.cfg.SubjectPrefix + ".>"},
		Storage:     jetstream.FileStorage,
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardOld,
		MaxAge:      l.cfg.MaxAge,
		MaxBytes:    l.cfg.MaxBytes,
		Duplicates:  l.cfg.Duplicates,
		Replicas:    l.cfg.Replicas,
		AllowDirect: true,
		FirstSeq:    base,
		Metadata:    map[string]string{metaBase: strconv.FormatUint(base, 10)},
	})
	if err == nil {
		l.raise(base - 1)
	}
	return err
}

// update writes what differs from the wanted configuration; base 0 keeps it.
func (l *Log) update(ctx context.Context, have jetstream.StreamConfig, base uint64) error {
	want := have
	want.MaxAge, want.MaxBytes, want.Duplicates, want.Replicas = l.cfg.MaxAge, l.cfg.MaxBytes, l.cfg.Duplicates, l.cfg.Replicas
	want.AllowDirect, want.Discard = true, jetstream.DiscardOld
	want.Metadata = map[string]string{}
	for k, v := range have.Metadata {
		want.Metadata[k] = v
	}
	if base > 0 {
		want.Metadata[metaBase] = strconv.FormatUint(base, 10)
	}
	same := base == 0 && want.MaxAge == have.MaxAge && want.MaxBytes == have.MaxBytes && want.Duplicates == have.Duplicates &&
		want.Replicas == have.Replicas && have.AllowDirect && have.Discard == jetstream.DiscardOld
	if same {
		return nil
	}
	if _, err := l.js.UpdateStream(ctx, want); err != nil {
		return domain.Unavailablef("event log", err)
	}
	return nil
}

// raise notes that the log has reached seq.
func (l *Log) raise(seq uint64) {
	for {
		have := l.high.Load()
		if seq <= have || l.high.CompareAndSwap(have, seq) {
			return
		}
	}
}

// HighWater is the highest sequence that this process knows of: the number to
// save outside the log, for Config.HighWater of the next start.
func (l *Log) HighWater() uint64 { return l.high.Load() }

// Kept says how far back the log goes: everything from seq first on is there,
// and everything that was published at since or later.
func (l *Log) Kept(ctx context.Context) (first uint64, since time.Time, err error) {
	stream, err := l.js.Stream(ctx, l.cfg.Stream)
	if err != nil {
		return 0, time.Time{}, domain.Unavailablef("event log", err)
	}
	info := stream.CachedInfo()
	first = info.State.FirstSeq
	base, _ := strconv.ParseUint(info.Config.Metadata[metaBase], 10, 64)
	baseTime := time.UnixMicro(int64(base)).UTC() //nolint:gosec // microseconds since 1970 fit for 290,000 years
	switch {
	case first <= base:
		return first, baseTime, nil // nothing was dropped yet
	case info.State.Msgs > 0:
		return first, info.State.FirstTime.UTC(), nil
	case info.State.LastTime.After(baseTime):
		return first, info.State.LastTime.UTC(), nil // the last one has expired
	default:
		return first, baseTime, nil
	}
}

// Forget drops a session's events, as its deletion does. Bodies that are
// objects are not touched.
func (l *Log) Forget(ctx context.Context, sessionID string) error {
	if err := token("session_id", sessionID); err != nil {
		return err
	}
	stream, err := l.js.Stream(ctx, l.cfg.Stream)
	if err != nil {
		return domain.Unavailablef("event log", err)
	}
	for _, subject := range []string{l.flow(sessionID), l.edge(sessionID)} {
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
			return domain.Unavailablef("event log", err)
		}
	}
	return nil
}

// now is the number at which a stream that is made now starts: microseconds
// since 1970. It stays below 2^53, which JavaScript can count to, until 2255.
func now() uint64 { return uint64(time.Now().UnixMicro()) } //nolint:gosec // positive since 1970
