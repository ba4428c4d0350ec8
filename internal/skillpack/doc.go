// Package skillpack reads skill packages of the open agent-skills specification: a directory with
// a file SKILL.md, whose front matter names and describes the skill, and files that its text
// references. It validates packages and computes their digest. It does not depend on their
// storage or use, so that the service and the registry apply the same rules.
package skillpack

// Limits of packages (docs/skills.md) and of the front matter (the open specification).
const (
	MaxFiles         = 500
	MaxBytes         = 200 << 20 // of all files together
	MaxDocument      = 1 << 20   // bytes of SKILL.md
	MaxName          = 64        // characters, as below
	MaxDescription   = 1024
	MaxCompatibility = 500

	maxFrontMatter = 64 << 10 // bytes
	maxBodyLines   = 500      // above, the specification recommends splitting the text
)

// DocumentName is the required file of a skill package.
const DocumentName = "SKILL.md"
