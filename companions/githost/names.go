package githost

import (
	"regexp"
	"strings"

	"everloop/companions/edge"
	"everloop/internal/skillpack"
)

var (
	orgForm    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	commitForm = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// mainRef is the branch that is published.
const mainRef = "refs/heads/main"

// suffix of a repository's name in URLs and on disk.
const suffix = ".git"

// zeroID represents a missing object.
const zeroID = "0000000000000000000000000000000000000000"

// repoID identifies a repository, which belongs to the skill of the same name. Its parts
// contain neither dots nor slashes, so that it is a path below the directory of all
// repositories.
type repoID struct{ org, name string }

func (id repoID) String() string { return id.org + "/" + id.name }

// newRepoID checks the names.
func newRepoID(org, name string) (repoID, error) {
	if !orgForm.MatchString(org) {
		return repoID{}, edge.Invalid("path.org",
			"must be 1 to 64 letters, digits, hyphens and underscores, beginning with a letter or digit")
	}

	if problem := skillpack.CheckName(name); problem != "" {
		return repoID{}, edge.Invalid("path.name", "%s", problem)
	}

	return repoID{org, name}, nil
}

// plainText removes terminal control sequences from a text for a client.
func plainText(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}

		return r
	}, strings.ToValidUTF8(text, "�"))
}
