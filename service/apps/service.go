// Package apps makes a directory of a workspace a public site, from a copy
// that nothing changes. It must not know transports or where copies are kept.
package apps

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"strings"
	"time"

	"everloop/domain"
	"everloop/domain/app"
)

// Copies keep directories as they were. The id of a copy is its name, a point, and more.
type Copies interface {
	// Begin reads a directory of the session's workspace and stores nothing:
	// app_too_large beyond the bounds, no_index_page where it has no such file.
	Begin(ctx context.Context, name string, session domain.Session, dir string) (Pending, error)
	// Open gives a file of a copy; file_not_found, also for what is no file.
	Open(ctx context.Context, copyID, path string) (app.File, error)
	// Directory reports whether a path of a copy is a directory.
	Directory(ctx context.Context, copyID, path string) (bool, error)
	// Drop removes a copy, also one of which a part was stored.
	Drop(ctx context.Context, name string) error
}

// Pending is a directory that was read and is not stored.
type Pending interface {
	// Needs is the most that Finish stores.
	Needs() int64
	Finish(ctx context.Context) (copyID string, bytes int64, err error)
	// Discard frees what was read.
	Discard()
}

// Config is what New needs.
type Config struct {
	Store  *Store
	Copies Copies
	Logger *slog.Logger
	// Budget bounds what the object store keeps of the apps and checkpoints of a user, in
	// bytes; 0: no bound.
	Budget int64
}

// Service publishes apps.
type Service struct {
	*Store
	cfg Config
}

// New returns a new service. It fails when the configuration is incomplete.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Copies == nil || cfg.Logger == nil {
		return nil, errors.New("apps: the configuration needs Store, Copies and Logger")
	}

	return &Service{Store: cfg.Store, cfg: cfg}, nil
}

// Publish creates the directory's app, or brings a new copy to the one it has: the
// old one is served until the new one is whole. Without an index page it is
// refused as no_index_page. What is refused leaves nothing behind.
func (s *Service) Publish(ctx context.Context, session domain.Session, dir string) (app.App, error) {
	dir = path.Clean(dir)

	name := path.Base(dir)
	if dir == "." {
		name = session.Intent
	}

	if name == "" {
		name = "App"
	}

	published, err := s.BeginApp(ctx, app.App{
		ID: domain.NewID(), OwnerID: session.OwnerID, SessionID: session.ID, WorkingDir: dir, Name: name,
	})
	if err != nil {
		return published, err
	}

	live, err := s.renew(ctx, published, session)
	if err == nil {
		return live, nil
	}

	if published.Status == app.Building {
		// The caller gets the cause; a record that stays must not hide it.
		if kept := s.ForgetApp(context.WithoutCancel(ctx), published.ID); kept != nil {
			s.cfg.Logger.Warn("failed to remove an app that was never published", "app_id", published.ID, "error", kept)
		}
	}

	return published, err
}

// renew stores a copy of the directory, makes it the one that is served, and removes the
// one before.
func (s *Service) renew(ctx context.Context, published app.App, session domain.Session) (app.App, error) {
	copied := app.Copy{Name: "app-" + published.ID + "-" + domain.NewID(), AppID: published.ID, OwnerID: published.OwnerID}

	pending, err := s.cfg.Copies.Begin(ctx, copied.Name, session, published.WorkingDir)
	if err != nil {
		return published, err
	}
	defer pending.Discard()

	copied.Bytes = pending.Needs()
	if err := s.KeepCopy(ctx, copied, s.cfg.Budget); err != nil {
		return published, err
	}

	copyID, bytes, err := pending.Finish(ctx)
	if err != nil {
		s.drop(ctx, copied.Name)
		return published, err
	}

	copied.Bytes = bytes

	live, before, err := s.FinishApp(ctx, copied, copyID)
	if domain.HasCode(err, app.CodeNotFound) {
		s.drop(ctx, copied.Name)
	}

	if err != nil { // whether a lost answer was a yes is known to the periodic job
		return published, err
	}

	s.drop(ctx, nameOf(before))

	return live, nil
}

// nameOf returns the name in the id of a copy.
func nameOf(copyID string) string {
	name, _, _ := strings.Cut(copyID, ".")
	return name
}

// dropTime bounds the removal of a copy, whose caller may have left.
const dropTime = 30 * time.Second

// drop removes a copy, if there is one. What it cannot remove, Clear does.
func (s *Service) drop(ctx context.Context, name string) {
	if name == "" {
		return
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
	defer cancel()

	if err := s.remove(ctx, name); err != nil {
		s.cfg.Logger.Warn("failed to remove a copy of an app; the periodic job retries", "copy", name, "error", err)
	}
}

func (s *Service) remove(ctx context.Context, name string) error {
	if err := s.cfg.Copies.Drop(ctx, name); err != nil {
		return err
	}

	return s.ForgetCopy(ctx, name)
}

const (
	// leftAge is well above the time in which a copy is made.
	leftAge = time.Hour
	// leftBatch bounds the copies that one call of Clear removes.
	leftBatch = 100
)

// Clear removes copies that no app serves: of processes that died, of deleted users, and
// those whose removal failed.
func (s *Service) Clear(ctx context.Context) error {
	names, err := s.LeftCopies(ctx, leftAge, leftBatch)
	if err != nil {
		return err
	}

	var faults []error
	for _, name := range names {
		faults = append(faults, s.remove(ctx, name))
	}

	return errors.Join(faults...)
}

// Unpublish ends an app: its address answers no more, and its copy goes.
func (s *Service) Unpublish(ctx context.Context, ownerID, appID string) (app.App, error) {
	app, err := s.StopApp(ctx, ownerID, appID)
	if err != nil {
		return app, err
	}

	s.drop(ctx, nameOf(app.CopyID))

	return app, nil
}

// Serve finds what a path of an app leads to. A directory leads to its index page, when
// the path has its closing slash. Hidden files were copied with the directory and are not
// served: they hold what was not meant for others, as keys and the history of a
// repository.
func (s *Service) Serve(ctx context.Context, appID, name string) (app.Served, error) {
	copyID, err := s.LiveApp(ctx, appID)
	if err != nil {
		return app.Served{}, err
	}

	served, err := s.serve(ctx, copyID, name)
	if err == nil {
		return served, nil
	}
	// The copy may have been replaced, and removed, since it was found.
	now, found := s.LiveApp(ctx, appID)
	if found != nil || now == copyID {
		return served, err
	}

	return s.serve(ctx, now, name)
}

func (s *Service) serve(ctx context.Context, copyID, name string) (app.Served, error) {
	clean := path.Clean("/" + name)[1:]
	if hidden(clean) || strings.ContainsRune(name, 0) {
		return app.Served{}, missing(name)
	}

	if clean == "" && !strings.HasSuffix(name, "/") {
		return app.Served{Directory: true}, nil // a browser needs the slash to find the other files
	}

	at := clean
	if strings.HasSuffix(name, "/") {
		at = path.Join(clean, app.Index)
	}

	file, err := s.cfg.Copies.Open(ctx, copyID, at)
	if domain.HasCode(err, domain.CodeFileNotFound) && at == clean {
		if directory, looked := s.cfg.Copies.Directory(ctx, copyID, clean); looked == nil && directory {
			return app.Served{Path: clean, Directory: true}, nil
		}
	}

	return app.Served{File: file, Path: at}, err
}

func hidden(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") && part != ".well-known" {
			return true
		}
	}

	return false
}

func missing(name string) error {
	return domain.Newf(domain.NotFound, domain.CodeFileNotFound, "the app has no file %q", name)
}
