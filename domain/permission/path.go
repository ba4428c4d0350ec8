package permission

import (
	"path"
	"strings"
)

// workspace is the path of the workspace inside the sandbox.
const workspace = "/workspace"

// pathArgument is the name of a tool's path argument.
var pathArgument = map[string]string{"Read": "file_path", "Write": "file_path", "Edit": "file_path", "Grep": "path", "Glob": "path"}

// searchArgument is the name of the argument that restricts a search to files by name.
var searchArgument = map[string]string{"Grep": "glob", "Glob": "pattern"}

// pathSubject judges the target file of a path, in every spelling. An allow rule must match the
// file itself: the cleaned path, and the path with links resolved.
func pathSubject(call Call, args arguments) subject {
	given, _ := args.text(pathArgument[call.Tool])
	s := subject{members: args.byName(), texts: []string{strings.TrimSpace(given)}}
	files := []string{clean(given)}

	if call.Resolve != nil {
		if led := clean(call.Resolve(below(files[0]))); led != files[0] {
			files = append(files, led)
		}
	}

	pattern, searches := args.text(searchArgument[call.Tool])
	if searches {
		s.texts = append(s.texts, strings.TrimSpace(pattern))
	}

	if regexp, ok := args.text("pattern"); ok && call.Tool == "Grep" {
		s.texts = append(s.texts, strings.TrimSpace(regexp))
	}

	for _, file := range files {
		spellings := []string{file, below(file)}

		if searches {
			matched := clean(path.Join(file, pattern))
			s.texts = append(s.texts, matched, below(matched))

			if !strings.Contains(pattern, "..") {
				spellings = append(spellings, matched, below(matched))
			}
		}

		s.texts = append(s.texts, file, below(file))
		s.allowed = append(s.allowed, spellings)
	}

	return s
}

// clean returns the absolute path of a file as the model sees it.
func clean(given string) string {
	given = strings.TrimSpace(given)
	if !path.IsAbs(given) {
		given = workspace + "/" + given
	}

	return path.Clean(given)
}

// below returns an absolute path relative to the workspace, or unchanged if it is
// outside.
func below(file string) string {
	if file == workspace {
		return "."
	}

	if inside, ok := strings.CutPrefix(file, workspace+"/"); ok {
		return inside
	}

	return file
}
