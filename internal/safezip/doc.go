// Package safezip reads untrusted ZIP archives: it rejects members that could be written outside
// of the target directory, archives that expand beyond the limits, and damaged archives, before
// or while they are read. It does not depend on the use of an archive.
//
// The sizes in an archive's directory are untrusted claims. Open checks the claims against the
// limits, and reading checks the content against the claims, so that neither check can be
// bypassed.
package safezip

// Limits limit an archive. 0: unlimited, but an archive without files is always rejected.
type Limits struct {
	Archive  int64 // bytes of the archive itself
	Files    int   // regular files; the same number limits directories
	Expanded int64 // bytes of all files together, unpacked
	File     int64 // bytes of one file, unpacked
	// Ratio is how often larger than its compressed form a file may be. Small
	// files, up to ratioFrom bytes, may be anything: they cannot do harm.
	Ratio int64
	// FoldNames refuses names that differ in case only, for packages that are
	// also unpacked on systems that do not distinguish them.
	FoldNames bool
}

const ratioFrom = 1 << 20

// SkillPackage are the limits of a skill package (docs/skills.md).
var SkillPackage = Limits{
	Archive: 50 << 20, Files: 500, Expanded: 200 << 20, Ratio: 200, FoldNames: true,
}
