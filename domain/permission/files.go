package permission

import (
	"path"
	"slices"
	"strings"
)

// maxFiles bounds the files of a call.
const maxFiles = 64

// Files returns the paths below the workspace that a call names, as candidates: the words
// of a command that can name a file, or the file that is written.
func Files(call Call) []string {
	args := parseArguments(call.Arguments)

	switch call.Tool {
	case "Write", "Edit":
		given, _ := args.text(pathArgument[call.Tool])
		return []string{below(clean(given))}
	case "Bash":
		return filesOf(args.script())
	default:
		return nil
	}
}

func filesOf(script string) []string {
	found := &commands{}
	found.addScript(script, 0)

	var files []string

	add := func(dir, name string) {
		if file := below(clean(path.Join(dir, name))); !path.IsAbs(file) && !slices.Contains(files, file) && len(files) < maxFiles {
			files = append(files, file)
		}
	}

	dirs := []string{""}

	for _, name := range found.words {
		if dir, ok := strings.CutPrefix(name, "cd "); ok {
			dirs = append(dirs, dir, path.Join(dirs[len(dirs)-1], dir))
			continue
		}

		if _, value, ok := strings.Cut(name, "="); ok {
			name = value
		}

		if name == "" || strings.HasPrefix(name, "-") || strings.ContainsAny(name, "\n"+string(unknown)) {
			continue
		}

		if path.IsAbs(name) {
			add("", name)
			continue
		}

		for _, dir := range dirs {
			add(dir, name)
		}
	}

	return files
}

// addWords collects the words of a command that can name files.
func (c *commands) addWords(call simpleCall) {
	words := call.words
	if len(words) == 2 && words[0].text == "cd" {
		c.words = append(c.words, "cd "+words[1].text)
		return
	}

	for _, w := range words {
		c.words = append(c.words, w.text)
	}

	for _, r := range call.redirs {
		if _, name, ok := strings.Cut(r.text, " "); ok && !r.feeds {
			c.words = append(c.words, name)
		}
	}
}
