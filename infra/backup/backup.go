package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"everloop/internal/release"
)

// Deployment lists the content of a backup, in the order of its entries.
type Deployment struct {
	Databases []Database
	Bucket    Bucket
	Files     []File
	Trees     []Tree

	// Seal encrypts a text with the key of the deployment.
	Seal func(text []byte) ([]byte, error)
	// Progress is called with the name of the next part.
	Progress func(what string)
}

// SealedText is the plain text of Head.Sealed.
const SealedText = "everloop backup"

// Write writes the deployment to path, which must not exist, with mode 0600. The file appears
// after it was written completely and flushed.
func Write(ctx context.Context, path string, d Deployment) (m Manifest, err error) {
	if _, err := os.Lstat(path); err == nil {
		return m, fmt.Errorf("%s exists: choose another name", path)
	} else if !errors.Is(err, os.ErrNotExist) {
		return m, err
	}

	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return m, err
	}
	defer os.Remove(file.Name())
	defer file.Close()

	if m, err = d.write(ctx, file); err != nil {
		return m, err
	}

	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return m, err
	}

	if err := os.Link(file.Name(), path); err != nil { // fails if the name was taken in the meantime
		return m, err
	}

	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return m, err
	}
	defer dir.Close()

	return m, dir.Sync()
}

// write writes the databases first, then the objects and files: an object or a file is stored
// before a row references it, so that no referenced one is missing unless it was deleted since.
// The manifest lists those deletions.
func (d Deployment) write(ctx context.Context, file *os.File) (m Manifest, err error) {
	snapshots := make([]*snapshot, 0, len(d.Databases))

	for _, db := range d.Databases {
		s, err := openSnapshot(ctx, db)
		if err != nil {
			return m, err
		}
		defer s.close(ctx)

		snapshots = append(snapshots, s)
	}

	m.Head = Head{Format: format, Version: release.Version, Time: time.Now().UTC()}
	if len(snapshots) > 0 {
		m.Time = snapshots[0].at.UTC()
	}

	if m.Sealed, err = d.Seal([]byte(SealedText)); err != nil {
		return m, err
	}

	a, err := newArchive(file, m.Head)
	if err != nil {
		return m, err
	}

	m.Databases = map[string]Contents{}

	for _, s := range snapshots {
		d.Progress("database " + s.db.Name)

		if m.Databases[s.db.Name], err = s.write(ctx, a); err != nil {
			return m, err
		}
	}

	if err := d.rest(ctx, a); err != nil {
		return m, err
	}

	for _, s := range snapshots {
		contents := m.Databases[s.db.Name]
		if contents.Gone, err = s.gone(ctx); err != nil {
			return m, err
		}

		m.Databases[s.db.Name] = contents
	}

	m.Finished, m.Parts = time.Now().UTC(), a.parts.parts()

	return m, a.finish(m)
}

// rest writes the objects and files. Workspaces come first, because they change most.
func (d Deployment) rest(ctx context.Context, a *archive) error {
	for _, tree := range d.Trees {
		d.Progress(tree.Name)

		if err := a.tree(ctx, tree); err != nil {
			return err
		}
	}

	d.Progress("objects")

	if err := a.objects(ctx, d.Bucket); err != nil {
		return err
	}

	for _, file := range d.Files {
		if err := a.file(file); err != nil {
			return err
		}
	}

	return nil
}
