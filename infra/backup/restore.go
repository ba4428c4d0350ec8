package backup

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Checked is a verified backup.
type Checked struct {
	Manifest
	// Key is the content of the file requested from Check; nil: not in the backup.
	Key []byte

	path string
}

// Check verifies a backup, and returns one small file of it.
func Check(path, name string) (c Checked, err error) {
	file, err := os.Open(path)
	if err != nil {
		return c, err
	}
	defer file.Close()

	const most = 1 << 16

	c.path = path
	c.Manifest, err = read(file, func(header *tar.Header, body io.Reader) (err error) {
		if header.Name == filesPart+"/"+name {
			c.Key, err = io.ReadAll(io.LimitReader(body, most))
		}

		return err
	})

	return c, err
}

// Restore writes the backup to an empty deployment.
func (c Checked) Restore(ctx context.Context, d Deployment) error {
	if err := d.fits(ctx, c.Manifest); err != nil {
		return err
	}

	file, err := os.Open(c.path)
	if err != nil {
		return err
	}
	defer file.Close()

	r := &restore{ctx: ctx, d: d, m: c.Manifest, trees: map[string]*target{}, loads: map[string]*load{}}
	defer r.close()

	if err := r.open(); err != nil {
		return err
	}

	if _, err := read(file, r.take); err != nil {
		return err
	}

	return r.finish()
}

// fits returns an error unless the deployment is empty and this program can restore the backup.
func (d Deployment) fits(ctx context.Context, m Manifest) error {
	for name, contents := range m.Databases {
		db, err := d.database(name)
		if err != nil {
			return err
		}

		if err := db.known(contents); err != nil {
			return err
		}
	}

	var faults []error
	for _, db := range d.Databases {
		faults = append(faults, db.unused(ctx))
	}

	for _, tree := range d.Trees {
		faults = append(faults, Occupied(tree.Dir))
	}

	for _, file := range d.Files {
		faults = append(faults, file.free())
	}

	return errors.Join(append(faults, d.Bucket.empty(ctx))...)
}

func (d Deployment) database(name string) (Database, error) {
	for _, db := range d.Databases {
		if db.Name == name {
			return db, nil
		}
	}

	return Database{}, fmt.Errorf(
		"the backup has a database %s of its own: set its address, as it was set when the backup was written",
		name,
	)
}

// restore is the state of a restore.
type restore struct {
	ctx context.Context
	d   Deployment
	m   Manifest

	trees map[string]*target
	loads map[string]*load
	part  string
}

func (r *restore) open() error {
	for _, tree := range r.d.Trees {
		opened, err := openTarget(tree.Dir)
		if err != nil {
			return err
		}

		r.trees[tree.Name] = opened
	}

	for name, contents := range r.m.Databases {
		db, err := r.d.database(name)
		if err != nil {
			return err
		}

		opened, err := openLoad(r.ctx, db, contents)
		if err != nil {
			return err
		}

		r.loads[name] = opened
	}

	return nil
}

func (r *restore) close() {
	for _, l := range r.loads {
		l.close(r.ctx)
	}

	for _, t := range r.trees {
		t.root.Close()
	}
}

// take restores one entry.
func (r *restore) take(header *tar.Header, body io.Reader) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}

	if part := partOf(header.Name); part != r.part {
		r.part = part
		r.d.Progress(part)
	}

	kind, rest, _ := strings.Cut(header.Name, "/")
	name, below, within := strings.Cut(rest, "/")

	switch kind {
	case objectsPart:
		return r.d.Bucket.put(r.ctx, header, body)
	case databasePart:
		if l := r.loads[name]; l != nil {
			return l.take(r.ctx, header.Name, body)
		}
	case filesPart:
		if t := r.trees[name]; t != nil && within {
			return t.take(header, below, filesPart+"/"+name+"/", body)
		}

		for _, file := range r.d.Files {
			if file.Name == name && !within {
				return file.keep(body)
			}
		}
	}

	return fmt.Errorf("the backup has %s, which this program does not know: use a newer program", header.Name)
}

// finish completes the restore: it sets the attributes of directories, commits the databases, and
// runs the statements of Database.Restored.
func (r *restore) finish() error {
	for name, t := range r.trees {
		if err := t.close(); err != nil {
			return fmt.Errorf("restore %s: %w", name, err)
		}
	}

	for _, l := range r.loads {
		if err := l.finish(r.ctx); err != nil {
			return err
		}
	}

	for _, l := range r.loads {
		if err := l.restored(r.ctx); err != nil {
			return err
		}
	}

	unix.Sync()

	return nil
}
