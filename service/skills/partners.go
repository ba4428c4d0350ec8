//go:build linux

package skills

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"everloop/domain/skill"
	"everloop/internal/skillpack"
)

// partners are the packages that the operator put into the directory. They are
// looked at again every few seconds, and read again when they have changed.
type partners struct {
	dir    string
	logger *slog.Logger

	mu     sync.Mutex
	looked time.Time
	known  map[string]partner
	list   []*entry
}

type partner struct {
	look  string
	entry *entry
}

// entries returns the packages by name; fresh looks at once.
func (p *partners) entries(ctx context.Context, fresh bool) []*entry {
	p.mu.Lock()
	defer p.mu.Unlock()

	if !fresh && time.Since(p.looked) < partnersFor {
		return p.list
	}

	dirs, err := os.ReadDir(p.dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			p.logger.Warn("failed to read the directory of skills", "error", err)
		}

		dirs = nil
	}

	known, list := map[string]partner{}, []*entry(nil)

	for _, dir := range dirs {
		name := dir.Name()
		if !dir.IsDir() || skillpack.CheckName(name) != "" {
			continue
		}

		now := p.read(ctx, name)
		if ctx.Err() != nil {
			return p.list
		}

		known[name] = now
		list = append(list, now.entry)
	}

	p.known, p.list, p.looked = known, list, time.Now()

	return list
}

// read reads one package, unless it is as it was. One that cannot be used is
// listed with what is wrong with it.
func (p *partners) read(ctx context.Context, name string) partner {
	path := filepath.Join(p.dir, name)
	files, look, err := hostFiles(path)

	before, seen := p.known[name]
	if err == nil && seen && before.look == look {
		return before
	}

	var pack skillpack.Pack
	if err == nil {
		pack, err = skillpack.Inspect(ctx, files)
	}

	if err == nil && pack.Name != name {
		err = fmt.Errorf("its name is %s, and must be that of its directory", pack.Name)
	}

	now := partner{look: look}
	if err != nil {
		if ctx.Err() == nil && (!seen || before.look != look) {
			p.logger.Warn("failed to load a skill of the operator", "skill", name, "error", err)
		}

		now.entry = &entry{Skill: skill.Skill{Name: name, Problem: problemOf(err)}}
	} else {
		now.entry = entryOf(skill.Partner, "", pack)
	}

	now.entry.ID, now.entry.Source = "partner:"+name, skill.Partner

	if info, err := os.Stat(path); err == nil {
		changed := info.ModTime().UTC()
		now.entry.InstalledAt = &changed
	}

	return now
}
