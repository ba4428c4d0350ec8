//go:build linux

package skills

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"everloop/domain/skill"
	"everloop/internal/skillpack"
)

//go:embed all:builtin
var builtinFiles embed.FS

// builtinSkills reads the skills that come with the service.
func builtinSkills() ([]*entry, error) {
	dirs, err := fs.ReadDir(builtinFiles, "builtin")
	if err != nil {
		return nil, err
	}

	var list []*entry

	for _, dir := range dirs {
		below, err := fs.Sub(builtinFiles, "builtin/"+dir.Name())
		if err != nil {
			return nil, err
		}

		files, err := embedded(below)
		if err != nil {
			return nil, err
		}

		p, err := skillpack.Inspect(context.Background(), files)
		if err == nil && p.Name != dir.Name() {
			err = fmt.Errorf("its name is %s", p.Name)
		}

		if err != nil {
			return nil, fmt.Errorf("built-in skill %s: %w", dir.Name(), err)
		}

		list = append(list, entryOf(skill.Builtin, "builtin:"+p.Name, p))
	}

	return list, nil
}

func embedded(below fs.FS) ([]skillpack.File, error) {
	var files []skillpack.File

	err := fs.WalkDir(below, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}

		content, err := fs.ReadFile(below, path)
		if err == nil {
			files = append(files, skillpack.InMemory(path, content))
		}

		return err
	})

	return files, err
}
