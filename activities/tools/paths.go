package tools

import "strings"

// ofService reports whether a path belongs to the service's own directory.
func ofService(p string) bool { return p == ServiceDir || strings.HasPrefix(p, ServiceDir+"/") }

// toModel turns what the file system refused into a result, and passes on what
// is not the model's to know.
func toModel(err error) (Result, error) {
	if words, ok := refusal(err); ok {
		return *failed("%s", sentence(words)), nil
	}

	return *failed("The files of the workspace cannot be reached at the moment."), err
}

// sentence gives a message the form in which the model reads them all.
func sentence(words string) string {
	words = strings.TrimSpace(words)
	if words == "" {
		return "It was refused."
	}

	if !strings.HasSuffix(words, ".") {
		words += "."
	}

	return words
}
