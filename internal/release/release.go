// Package release contains the version of the program, the order of versions, and the compatible
// versions of the other services. It is the only source of the version; a test compares it with
// the packages of the SDKs.
package release

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Version is the release: year and month, then two counters. A pre-release ends with -beta.N. The
// build of a tag overwrites it with -ldflags "-X everloop/internal/release.Version=…".
var Version = "2611.0.0"

// MinSDK is the lowest compatible version of the SDKs.
const MinSDK = "2611.0.0"

// Header is the response header with the version of the service.
const Header = "X-Everloop-Version"

// needed contains the oldest compatible versions of the other services, by the name of the
// component. The release notes describe the changes.
var needed = map[string]string{
	"identity": "2611.0.0",
	"registry": "2611.0.0",
	"gateway":  "2611.0.0",
	"git":      "2611.0.0",
	"desktop":  "2611.0.0",
}

// Number is a parsed version.
type Number struct {
	parts [3]int
	beta  int // 0: no pre-release
}

var form = regexp.MustCompile(`^v?([0-9]{1,6})\.([0-9]{1,6})\.([0-9]{1,6})(?:-beta\.([1-9][0-9]{0,5}))?$`)

// Parse parses a version such as 2611.0.0, 2611.0.0-beta.1 or the image tag v2611.0.0.
func Parse(text string) (n Number, err error) {
	found := form.FindStringSubmatch(text)
	if found == nil {
		return n, fmt.Errorf("version %q must have three numbers separated by dots, and may end with -beta.N", text)
	}

	for i := range n.parts {
		n.parts[i], _ = strconv.Atoi(found[i+1]) // the pattern admits digits only
	}

	if found[4] != "" {
		n.beta, _ = strconv.Atoi(found[4])
	}

	return n, nil
}

// Compare orders versions: below 0, 0 or above 0. A pre-release precedes its release.
func (n Number) Compare(other Number) int {
	for i, part := range n.parts {
		if order := cmp.Compare(part, other.parts[i]); order != 0 {
			return order
		}
	}

	switch {
	case n.beta == other.beta:
		return 0
	case n.beta == 0:
		return 1
	case other.beta == 0:
		return -1
	}

	return cmp.Compare(n.beta, other.beta)
}

// ImageTag returns the image tag of a version.
func ImageTag(version string) string { return "v" + strings.TrimPrefix(version, "v") }

// Compatible checks the version of another service, by the name of its component.
func Compatible(component, version string) error {
	least, known := needed[component]
	if !known {
		return nil
	}

	has, err := Parse(version)
	if err != nil {
		return err
	}

	if needs, err := Parse(least); err != nil || has.Compare(needs) < 0 {
		return fmt.Errorf("version %s is too old for the agent %s, which needs at least %s: upgrade it to the image %s",
			version, Version, least, ImageTag(Version))
	}

	return nil
}
