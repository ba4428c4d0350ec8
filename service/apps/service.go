// Package apps makes a directory of a workspace a public site, from a copy
// that nothing changes. It must not know transports or where copies are kept.
package apps

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"strings"

	"everloop/domain"
)

// Records keep what is published. A place is a session and a directory of it.
type Records interface {
	// BeginApp finds the place's app, or makes it.
	BeginApp(ctx context.Context, app domain.App) (domain.App, error)
	// FinishApp makes a copy the one that is served; app_not_found when the app was
	// stopped meanwhile.
	FinishApp(ctx context.Context, appID, copyID string) (domain.App, error)
	// ForgetApp takes away an app that was never live.
	ForgetApp(ctx context.Context, appID string) error
	StopApp(ctx context.Context, ownerID, appID string) (domain.App, error)
	App(ctx context.Context, ownerID, appID string) (domain.App, error)
	Apps(ctx context.Context, ownerID string) ([]domain.App, error)
	// LiveApp gives the copy of a live app for any caller.
	LiveApp(ctx context.Context, appID string) (copyID string, err error)
}

// Copies keep directories as they were.
type Copies interface {
	// Take copies a directory of the session's workspace: app_too_large beyond the
	// bounds.
	Take(ctx context.Context, appID string, session domain.Session, dir string) (copyID string, err error)
	// Open gives a file of a copy; file_not_found, also for what is no file.
	Open(ctx context.Context, copyID, path string) (domain.AppFile, error)
	// Directory says whether a path of a copy is a directory.
	Directory(ctx context.Context, copyID, path string) (bool, error)
	// Drop removes all copies of an app.
	Drop(ctx context.Context, appID string) error
}

// Config is what New needs.
type Config struct {
	Records Records
	Copies  Copies
	Logger  *slog.Logger
}

// Service publishes apps.
type Service struct {
	cfg Config
}

// New checks the configuration.
func New(cfg Config) (*Service, error) {
	if cfg.Records == nil || cfg.Copies == nil || cfg.Logger == nil {
		return nil, errors.New("apps: the configuration needs Records, Copies and Logger")
	}

	return &Service{cfg: cfg}, nil
}

// index is the page of a directory.
const index = "index.html"

// Publish makes the directory's app, or brings a new copy to the one it has: the
// old one is served until the new one is whole. Without an index page it is
// refused as no_index_page. What is refused leaves nothing behind.
func (s *Service) Publish(ctx context.Context, session domain.Session, dir string) (domain.App, error) {
	dir = path.Clean(dir)

	name := path.Base(dir)
	if dir == "." {
		name = session.Intent
	}

	if name == "" {
		name = "App"
	}

	app, err := s.cfg.Records.BeginApp(ctx, domain.App{
		ID: domain.NewID(), OwnerID: session.OwnerID, SessionID: session.ID, WorkingDir: dir, Name: name,
	})
	if err != nil {
		return app, err
	}

	copyID, err := s.copy(ctx, app, session)
	if err == nil {
		return s.cfg.Records.FinishApp(ctx, app.ID, copyID)
	}

	if app.Status == domain.AppBuilding {
		// The caller gets the cause; a record that stays must not hide it.
		if kept := s.cfg.Records.ForgetApp(context.WithoutCancel(ctx), app.ID); kept != nil {
			s.cfg.Logger.Warn("failed to remove an app that was never published", "app_id", app.ID, "error", kept)
		}
	}

	return app, err
}

func (s *Service) copy(ctx context.Context, app domain.App, session domain.Session) (string, error) {
	copyID, err := s.cfg.Copies.Take(ctx, app.ID, session, app.WorkingDir)
	if err != nil {
		return "", err
	}

	page, err := s.cfg.Copies.Open(ctx, copyID, index)
	if domain.HasCode(err, domain.CodeFileNotFound) {
		return "", domain.Newf(domain.Invalid, domain.CodeNoIndexPage, "the directory has no %s", index)
	}

	if err != nil {
		return "", err
	}

	return copyID, page.Content.Close()
}

// Unpublish ends an app: its address answers no more, and its copies go.
func (s *Service) Unpublish(ctx context.Context, ownerID, appID string) (domain.App, error) {
	app, err := s.cfg.Records.StopApp(ctx, ownerID, appID)
	if err != nil {
		return app, err
	}

	if err := s.cfg.Copies.Drop(ctx, appID); err != nil {
		s.cfg.Logger.Warn("failed to remove the copies of an app", "app_id", appID, "error", err)
	}

	return app, nil
}

// Serve finds what a path of an app leads to. A directory leads to its index
// page, when the path has its closing slash. Hidden files were copied with the directory and are not served: they hold
// what was not meant for others, as keys and the history of a repository.
func (s *Service) Serve(ctx context.Context, appID, name string) (domain.ServedApp, error) {
	copyID, err := s.cfg.Records.LiveApp(ctx, appID)
	if err != nil {
		return domain.ServedApp{}, err
	}

	clean := path.Clean("/" + name)[1:]
	if hidden(clean) || strings.ContainsRune(name, 0) {
		return domain.ServedApp{}, missing(name)
	}

	if clean == "" && !strings.HasSuffix(name, "/") {
		return domain.ServedApp{Directory: true}, nil // a browser needs the slash to find the other files
	}

	at := clean
	if strings.HasSuffix(name, "/") {
		at = path.Join(clean, index)
	}

	file, err := s.cfg.Copies.Open(ctx, copyID, at)
	if domain.HasCode(err, domain.CodeFileNotFound) && at == clean {
		if directory, looked := s.cfg.Copies.Directory(ctx, copyID, clean); looked == nil && directory {
			return domain.ServedApp{Path: clean, Directory: true}, nil
		}
	}

	return domain.ServedApp{File: file, Path: at}, err
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
