// Package recordings archives what sessions did and reads it back. The event log keeps
// events for a day; this package keeps them as objects, one for each stretch up to the end
// of a chat. Package replay plays them again, package transfer exports and imports them
// with the records and files of the session. This package does not depend on what an event
// means.
package recordings

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"

	"everloop/domain"
	"everloop/domain/transfer"
	"everloop/infra/postgres/pg"
)

// Log is the event log.
type Log interface {
	Read(ctx context.Context, sessionID domain.SessionID, after, upTo uint64, fn func(domain.LoggedEvent) error) error
}

// Objects is the object store: archived events, scripts of replays, uploads and pictures.
type Objects interface {
	Put(ctx context.Context, key string, data []byte) error
	Get(ctx context.Context, key string) ([]byte, error)
	Keys(ctx context.Context, prefix string) ([]string, error)
	CopyPrefix(ctx context.Context, from, to string) error
	DeletePrefix(ctx context.Context, prefix string) error
	Image(ctx context.Context, sessionID domain.SessionID, name string) (data []byte, mime string, err error)
	PutImage(ctx context.Context, sessionID domain.SessionID, name, mime string, data []byte) error
}

// Files are the files of sessions, as they are and at checkpoints.
type Files interface {
	Walk(ctx context.Context, session domain.Session, visit func(domain.CarriedFile) error) error
	WalkSnapshot(ctx context.Context, snapshotID string, visit func(domain.CarriedFile) error) (found bool, err error)
	// Fits fails when the session's workspace has no space for the files.
	Fits(ctx context.Context, session domain.Session, bytes int64, files int) error
	Put(ctx context.Context, session domain.Session, file domain.CarriedFile, content io.Reader) error
	// Build returns a function that makes snapshots of a session. It opens contents by
	// their names, which are the identities of the files.
	Build(sessionID domain.SessionID, open func(content string) (io.ReadCloser, error)) (
		snapshot func(ctx context.Context, files []domain.CarriedFile) (id string, err error), err error)
	// CopyFiles copies the files of a snapshot to another session; without a snapshot those
	// of the workspace.
	CopyFiles(ctx context.Context, from, to domain.Session, snapshotID string) error
	Remove(ctx context.Context, sessionID domain.SessionID) error
}

// Runs starts workflows. Starting one that is open does nothing.
type Runs interface {
	StartArchive(ctx context.Context) error
	StartImport(ctx context.Context, in transfer.Import) error
	StartReplay(ctx context.Context, sessionID domain.SessionID, ownerID string) error
}

// Deps are the engines that recordings need; all are required.
type Deps struct {
	DB      *pg.DB
	Outbox  *pg.Outbox
	Log     Log
	Objects Objects
	Files   Files
	Runs    Runs
	Logger  *slog.Logger
}

// Check fails when one is missing.
func (d Deps) Check() error {
	if d.DB == nil || d.Outbox == nil || d.Log == nil || d.Objects == nil || d.Files == nil || d.Runs == nil || d.Logger == nil {
		return errors.New("recordings: the configuration needs DB, Outbox, Log, Objects, Files, Runs and Logger")
	}

	return nil
}

// Service archives events and reads them back.
type Service struct {
	*Store
	deps Deps

	partsAfter string // where ArchiveParts was interrupted
}

// New returns a new service. It fails when a dependency is missing.
func New(deps Deps) (*Service, error) {
	if err := deps.Check(); err != nil {
		return nil, err
	}

	return &Service{Store: NewStore(deps.DB), deps: deps}, nil
}

// Prefix returns where the archives of a session lie; who deletes the session
// deletes them.
func Prefix(sessionID domain.SessionID) string {
	return "archives/" + string(sessionID) + "/"
}

// end returns the position up to which a session is archived.
func (a *Service) end(ctx context.Context, sessionID domain.SessionID) (uint64, error) {
	list, err := a.Archived(ctx, sessionID)
	if err != nil || len(list) == 0 {
		return 0, err
	}

	return list[len(list)-1].UpToSeq, nil
}

// Events yields all events of a session that are still to be had, in their
// order: what is archived, and then what the log has besides. There may be gaps
// where the log forgot what was never archived.
func (a *Service) Events(ctx context.Context, sessionID domain.SessionID, yield func(domain.LoggedEvent) error) error {
	list, err := a.Archived(ctx, sessionID)
	if err != nil {
		return err
	}

	end := uint64(0)

	for _, part := range list {
		data, err := a.deps.Objects.Get(ctx, part.Key)
		if domain.AsError(err).Kind == domain.NotFound && err != nil {
			a.deps.Logger.Warn("archived events are missing", "session_id", sessionID, "key", part.Key)
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

	return a.deps.Log.Read(ctx, sessionID, end, math.MaxUint64, yield)
}
