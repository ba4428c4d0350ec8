// Package eventarchive keeps the events of sessions for longer than the event log
// does: as objects, one for each stretch up to the end of a chat. Replays and exports
// read from it. It knows events and objects, and not what an event means.
package eventarchive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"everloop/domain"
	"everloop/domain/transfer"
)

// Store says what is archived and what is not yet.
type Store interface {
	Unarchived(ctx context.Context, after string, limit int) ([]transfer.UnarchivedChat, error)
	PostponeArchive(ctx context.Context, chat transfer.UnarchivedChat) error
	Archived(ctx context.Context, sessionID domain.SessionID) ([]transfer.EventArchive, error)
	KeepArchive(ctx context.Context, chat transfer.UnarchivedChat, made transfer.EventArchive) error
	// LongRunning gives sessions whose running chat has not been archived for age, in the
	// order of their ids and after one.
	LongRunning(ctx context.Context, age time.Duration, after string, limit int) ([]string, error)
	// KeepPart notes a part of a chat's events; kept is false when another process was
	// faster.
	KeepPart(ctx context.Context, made transfer.EventArchive) (kept bool, err error)
}

// Log is the event log.
type Log interface {
	Read(ctx context.Context, sessionID domain.SessionID, after, upTo uint64, fn func(domain.LoggedEvent) error) error
}

// Objects keep what is archived.
type Objects interface {
	Put(ctx context.Context, key string, data []byte) error
	Get(ctx context.Context, key string) ([]byte, error)
}

// Config is what New needs.
type Config struct {
	Store   Store
	Log     Log
	Objects Objects
	Runs    Runs
	Logger  *slog.Logger
}

// Service archives events and reads them back.
type Service struct {
	cfg Config

	partsAfter string // where ArchiveParts was interrupted
}

// New checks the configuration.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Log == nil || cfg.Objects == nil || cfg.Runs == nil || cfg.Logger == nil {
		return nil, errors.New("eventarchive: the configuration needs Records, Log, Objects, Runs and Logger")
	}

	return &Service{cfg: cfg}, nil
}

// Prefix is where the archives of a session lie; who deletes the session
// deletes them.
func Prefix(sessionID domain.SessionID) string {
	return "archives/" + string(sessionID) + "/"
}

// end is the position up to which a session is archived.
func (a *Service) end(ctx context.Context, sessionID domain.SessionID) (uint64, error) {
	list, err := a.cfg.Store.Archived(ctx, sessionID)
	if err != nil || len(list) == 0 {
		return 0, err
	}

	return list[len(list)-1].UpToSeq, nil
}

// Events yields all events of a session that are still to be had, in their
// order: what is archived, and then what the log has besides. There may be gaps
// where the log forgot what was never archived.
func (a *Service) Events(ctx context.Context, sessionID domain.SessionID, yield func(domain.LoggedEvent) error) error {
	list, err := a.cfg.Store.Archived(ctx, sessionID)
	if err != nil {
		return err
	}

	end := uint64(0)

	for _, part := range list {
		data, err := a.cfg.Objects.Get(ctx, part.Key)
		if domain.AsError(err).Kind == domain.NotFound && err != nil {
			a.cfg.Logger.Warn("archived events are missing", "session_id", sessionID, "key", part.Key)
			continue
		}

		if err != nil {
			return err
		}

		if err := Unpack(data, yield); err != nil {
			return fmt.Errorf("archive %s: %w", part.Key, err)
		}

		end = part.UpToSeq
	}

	return a.cfg.Log.Read(ctx, sessionID, end, math.MaxUint64, yield)
}
