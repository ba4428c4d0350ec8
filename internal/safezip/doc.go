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
	Archive  int64 // bytes of the archive
	Files    int   // regular files; the same number limits directories
	Expanded int64 // bytes of all files, uncompressed
	File     int64 // bytes of one file, uncompressed
	// Ratio is the maximum compression ratio of a file. Files up to ratioFrom bytes are exempt,
	// because they are harmless.
	Ratio int64
	// FoldNames rejects names that differ in case only, for packages that are also unpacked on
	// case-insensitive systems.
	FoldNames bool
}

const ratioFrom = 1 << 20

// SkillPackage are the limits of a skill package (docs/skills.md).
var SkillPackage = Limits{
	Archive: 50 << 20, Files: 500, Expanded: 200 << 20, Ratio: 200, FoldNames: true,
}
