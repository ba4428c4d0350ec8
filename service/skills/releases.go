//go:build linux

package skills

import (
	"cmp"
	"context"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"everloop/domain/skill"
)

var (
	orgForm     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	versionForm = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
)

// release is what the registry recommends of a skill.
type release struct{ version string }

const (
	releasesFor     = time.Minute      // how long an answer is believed
	noReleaseFor    = 15 * time.Second // and how long there is none
	releasesWithin  = 2 * time.Second  // lists do not wait longer for the registry
	releasesAtATime = 8
)

// IsOrganisation reports whether a text can be the name of an organisation of a registry.
func IsOrganisation(text string) bool { return orgForm.MatchString(text) }

// addReleases adds the version that the registry recommends to each of its skills, as
// far as the registry answers within releasesWithin.
func (s *Service) addReleases(ctx context.Context, list []skill.Skill) {
	if s.Registry == nil {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, releasesWithin)
	defer cancel()

	var all sync.WaitGroup

	slots := make(chan struct{}, releasesAtATime)

	for i := range list {
		if list[i].Source != skill.Registry {
			continue
		}

		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()

			skill := &list[i]
			skill.ReleaseVersion = s.released(ctx, skill.Org, skill.Name)
			skill.UpdateAvailable = newer(skill.ReleaseVersion, skill.Version)
		})
	}

	all.Wait()
}

// released returns the version that is recommended; empty when it is not known.
func (s *Service) released(ctx context.Context, org, name string) string {
	key := org + "/" + name
	if known, ok := s.releases.get(key); ok {
		return known.version
	}

	versions, err := s.Registry.Versions(ctx, org, name)
	if err != nil {
		s.Logger.Debug("failed to look up the release of a skill", "skill", key, "error", err)
		s.releases.putFor(key, release{}, noReleaseFor)

		return ""
	}

	for _, v := range versions {
		if v.Released {
			s.releases.put(key, release{v.Version})
			return v.Version
		}
	}

	s.releases.put(key, release{})

	return ""
}

// newer reports whether version a comes after b (semantic versioning).
func newer(a, b string) bool {
	if !versionForm.MatchString(a) || !versionForm.MatchString(b) {
		return a != "" && b != "" && a != b
	}

	return compareVersions(a, b) > 0
}

func compareVersions(a, b string) int {
	a, _, _ = strings.Cut(a, "+")
	b, _, _ = strings.Cut(b, "+")
	numbersA, preA, _ := strings.Cut(a, "-")

	numbersB, preB, _ := strings.Cut(b, "-")
	if c := compareParts(numbersA, numbersB); c != 0 {
		return c
	}

	switch { // a version comes after its previews
	case preA == "" && preB == "":
		return 0
	case preA == "":
		return 1
	case preB == "":
		return -1
	}

	return compareParts(preA, preB)
}

func compareParts(a, b string) int {
	left, right := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(left), len(right)) {
		x, errX := strconv.ParseUint(left[i], 10, 64)
		y, errY := strconv.ParseUint(right[i], 10, 64)
		c := 0

		switch {
		case errX == nil && errY == nil:
			c = cmp.Compare(x, y)
		case errX == nil: // numbers come before words
			c = -1
		case errY == nil:
			c = 1
		default:
			c = strings.Compare(left[i], right[i])
		}

		if c != 0 {
			return c
		}
	}

	return cmp.Compare(len(left), len(right))
}
