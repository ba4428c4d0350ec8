package flags

import "path/filepath"

// SolutionsIn returns the directory of an operator's own solutions.
func SolutionsIn(dataDir string) string { return filepath.Join(dataDir, "solutions") }
