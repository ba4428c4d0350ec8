package flags

import "path/filepath"

// SolutionsIn is where an operator's own solutions are: the directory of SOLUTIONS_DIR,
// or, without one, that below the data directory.
func SolutionsIn(dataDir, given string) string {
	if given != "" {
		return given
	}

	return filepath.Join(dataDir, "solutions")
}
