package registry

import (
	"net/http"
	"regexp"

	"github.com/Masterminds/semver/v3"

	"everloop/companions/edge"
	"everloop/internal/skillpack"
)

var (
	orgForm  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	wordForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)
)

// maxVersion bounds the length of a version.
const maxVersion = 64

// skillID identifies a skill.
type skillID struct{ org, name string }

// skillOf parses the skill in a path.
func skillOf(r *http.Request) (skillID, error) {
	id := skillID{r.PathValue("org"), r.PathValue("name")}
	if err := checkOrg(id.org); err != nil {
		return id, err
	}

	if problem := skillpack.CheckName(id.name); problem != "" {
		return id, edge.Invalid("path.name", "%s", problem)
	}

	return id, nil
}

func checkOrg(org string) error {
	if !orgForm.MatchString(org) {
		return edge.Invalid("path.org", "must be 1 to 64 letters, digits, hyphens and underscores, beginning with a letter or digit")
	}

	return nil
}

// checkVersion parses a semantic version. It rejects build metadata, because versions that
// differ only in it would be equal.
func checkVersion(where, text string) (*semver.Version, error) {
	v, err := semver.StrictNewVersion(text)
	if err != nil || len(text) > maxVersion || v.Metadata() != "" {
		return nil, edge.Invalid(where, "must be a semantic version without build metadata, as 1.2.3")
	}

	return v, nil
}

// versionOf parses the version in a path.
func versionOf(r *http.Request) (string, error) {
	text := r.PathValue("version")
	_, err := checkVersion("path.version", text)

	return text, err
}

func noSkill(id skillID) error {
	return edge.Refuse(http.StatusNotFound, "skill_not_found", "there is no skill %s/%s", id.org, id.name)
}

func noVersion(id skillID, version string) error {
	return edge.Refuse(http.StatusNotFound, "skill_version_not_found", "%s/%s has no version %s", id.org, id.name, version)
}
