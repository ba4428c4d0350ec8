// Package safezip reads untrusted ZIP archives: it refuses what could
// write outside the place where it is unpacked, what expands beyond its bounds,
// and what is damaged, before or while it is read. It knows nothing of what an
// archive is for.
//
// The sizes in an archive's directory are promises of its author. Open holds the
// promises against the limits, and reading holds the content against the
// promises, so that neither can be used to get past the other.
package safezip

// Limits bound an archive. A zero field is no limit, except that there is no
// archive without members.
type Limits struct {
	Archive  int64 // bytes of the archive itself
	Files    int   // regular files in it; directories beyond as many again are refused too
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
