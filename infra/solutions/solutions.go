// Package solutions loads the ways of working that sessions are made with: those
// built into the program, and an operator's own, which come next to them or in
// their place. It knows files and nothing of sessions.
package solutions

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"everloop/domain"
)

//go:embed builtin
var builtin embed.FS

// Catalog holds the solutions as they were when the program started.
type Catalog struct {
	solutions map[string]entry
	order     []string
	faults    map[string]error // by the id of the solution that cannot be used
}

type entry struct {
	solution domain.Solution
	files    fs.FS
}

// Load reads the built-in solutions and those of dir, a directory with one
// subdirectory for each; the same id in dir replaces a built-in one. A missing
// dir adds none. A solution of dir that cannot be used is left out, and with it
// nothing else: Faults reports it.
func Load(dir string) (*Catalog, error) {
	c := &Catalog{solutions: map[string]entry{}, faults: map[string]error{}}

	own, err := fs.Sub(builtin, "builtin")
	if err != nil {
		return nil, err
	}

	if err := c.add(own, "built-in solutions"); err != nil {
		return nil, err
	}

	if faults := c.Faults(); len(faults) > 0 {
		return nil, errors.Join(faults...)
	}

	if dir == "" {
		return c, nil
	}

	root, err := os.OpenRoot(dir) // links of an operator's solution cannot lead out of it
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}

	if err != nil {
		return nil, fmt.Errorf("read the solutions: %w", err)
	}

	return c, c.add(root.FS(), dir)
}

func (c *Catalog) add(root fs.FS, what string) error {
	dirs, err := fs.ReadDir(root, ".")
	if err != nil {
		return fmt.Errorf("read %s: %w", what, err)
	}

	for _, dir := range dirs {
		if !dir.IsDir() || strings.HasPrefix(dir.Name(), ".") {
			continue
		}

		files, err := fs.Sub(root, dir.Name())
		if err != nil {
			return err
		}

		solution, err := read(files, dir.Name())
		if err != nil {
			c.faults[dir.Name()] = fmt.Errorf("%s/%s: %w", what, dir.Name(), err)
			continue
		}

		if _, replaced := c.solutions[solution.ID]; !replaced {
			c.order = append(c.order, solution.ID)
		}

		c.solutions[solution.ID] = entry{solution, files}
	}

	return nil
}

// Faults says of each solution that cannot be used where it is, which file and
// what in it is wrong; by the solutions' ids.
func (c *Catalog) Faults() []error {
	var faults []error
	for _, id := range slices.Sorted(maps.Keys(c.faults)) {
		faults = append(faults, c.faults[id])
	}

	return faults
}

// All lists the solutions, the built-in ones first.
func (c *Catalog) All() []domain.Solution {
	out := make([]domain.Solution, len(c.order))
	for i, id := range c.order {
		out[i] = c.solutions[id].solution
	}

	return out
}

// Get returns one solution; an unknown id is solution_not_found.
func (c *Catalog) Get(id string) (domain.Solution, error) {
	e, ok := c.solutions[id]
	if !ok {
		return domain.Solution{}, domain.UnknownSolution(id)
	}

	return e.solution, nil
}

// maxFile bounds a solution's file, in bytes.
const maxFile = 10 << 20

// File reads a file of a solution, by its path within the solution. Missing
// ones, directories and hidden files are file_not_found.
func (c *Catalog) File(id, path string) ([]byte, error) {
	e, ok := c.solutions[id]
	if !ok {
		return nil, domain.UnknownSolution(id)
	}

	missing := domain.Newf(domain.NotFound, domain.CodeFileNotFound, "the solution has no file %s", path)

	hidden := func(part string) bool { return strings.HasPrefix(part, ".") }
	if !fs.ValidPath(path) || slices.ContainsFunc(strings.Split(path, "/"), hidden) {
		return nil, missing
	}

	info, err := fs.Stat(e.files, path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, missing
	}

	if info.Size() > maxFile {
		return nil, domain.Newf(domain.TooLarge, "file_too_large", "the file holds %d bytes, the limit is %d", info.Size(), maxFile)
	}

	content, err := fs.ReadFile(e.files, path)
	if err != nil || path != definition {
		return content, err
	}

	return redacted(content)
}

// Profile returns the base profile as the session's solution, its role and the
// session itself change it. A solution that is gone changes nothing. What one
// forbids that cannot be used is not known: its sessions ask before each call.
func (c *Catalog) Profile(base domain.Profile, s domain.Session) domain.Profile {
	if s.SolutionID != nil {
		role := ""
		if s.BizRoleID != nil {
			role = *s.BizRoleID
		}

		e, found := c.solutions[*s.SolutionID]
		if !found && c.faults[*s.SolutionID] != nil {
			e.solution.Permissions = []domain.PermissionRule{{Tool: "*", Decision: domain.PermissionAsk}}
		}

		base = e.solution.Over(base, role)
	}

	return base.With(s.Setup)
}
